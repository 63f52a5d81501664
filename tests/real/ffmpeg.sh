# ffmpeg: a film is made, encoded by two threads, decoded and filtered.
# real: limit 300
run() {
    local size=320x240 seconds=4
    [[ $SIZE == full ]] || { size=64x48 seconds=1; }
    film() { ffmpeg -nostdin -v error -bitexact -y "$@"; }
    film -f lavfi -i "testsrc2=size=$size:rate=25:duration=$seconds" -f lavfi -i "sine=frequency=440:duration=$seconds" \
        -c:v mpeg4 -threads 2 -c:a flac -bitexact film.mkv
    film -i film.mkv -f framemd5 frames
    film -i film.mkv -vf 'scale=iw/2:ih/2,hflip,eq=contrast=1.2' -frames:v 10 -c:v ffv1 -bitexact small.mkv
    film -i small.mkv -frames:v 1 first.png
    film -i missing.mkv none.mkv 2>&1 || echo "status $?"
}
