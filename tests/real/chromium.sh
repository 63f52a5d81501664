# Chromium renders a page with a script and a canvas to a picture.
# real: limit 600
# real: small-chaos a browser is 200 MB of code, and chaos translates it again and again
setup() {
    cat >"$SHARED/page.html" <<'EOF'
<html><body style="background:#fff"><h1>hello</h1><canvas id=c width=200 height=100></canvas><script>
var x = document.getElementById('c').getContext('2d');
for (var i = 0; i < 200; i++) { x.fillStyle = 'rgb(' + i + ',' + (255 - i) + ',100)'; x.fillRect(i, 0, 1, 100); }
var s = 0;
for (var i = 0; i < 3e6; i++) s += i % 7;
document.body.appendChild(document.createTextNode('sum ' + s));
</script></body></html>
EOF
}

run() {
    if [[ $SIZE != full ]]; then
        /usr/lib/chromium/chromium --version
        return
    fi
    # What it says about missing desktop services has process ids in it.
    chromium --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" \
        --screenshot="$PWD/page.png" "file://$SHARED/page.html" 2>/dev/null || echo "status $?"
    chromium --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" \
        --dump-dom "file://$SHARED/page.html" 2>/dev/null || echo "status $?"
    rm -rf profile
}
