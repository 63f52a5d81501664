# Servers on loopback: redis, nginx with worker processes, Python's; and their clients.
# real: limit 300
setup() {
    mkdir "$SHARED/site"
    seq 20000 >"$SHARED/site/numbers"
    echo '<h1>hello</h1>' >"$SHARED/site/index.html"
}

# A port that was free a moment ago.
free_port() {
    /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

run() {
    local port
    # redis, on a socket file.
    redis-server --port 0 --unixsocket "$PWD/redis.sock" --dir "$PWD" --save '' --appendonly yes --io-threads 2 >redis.log 2>&1 &
    local redis=$!
    until redis-cli -s redis.sock ping >/dev/null 2>&1; do sleep 0.05; done
    redis-cli -s redis.sock <<'END'
SET greeting hello
APPEND greeting " world"
INCRBY counter 41
INCR counter
LPUSH list a b c
LRANGE list 0 -1
ZADD board 3 x 1 y 2 z
ZRANGE board 0 -1 WITHSCORES
EVAL "local s = 0 for i = 1, 1000 do s = s + i end return s" 0
MULTI
SET a 1
INCR a
EXEC
EXPIRE a 100
OBJECT ENCODING list
NONSENSE
END
    seq 2000 | sed 's/.*/SET key:& value&/' | redis-cli -s redis.sock --pipe | tail -1
    redis-cli -s redis.sock dbsize
    redis-cli -s redis.sock bgrewriteaof
    redis-benchmark -s redis.sock -n 1000 -c 10 -q -t set,get >/dev/null && echo benchmarked
    redis-cli -s redis.sock shutdown nosave; wait $redis; echo "redis ended $?"

    # nginx, a master and two workers.
    port=$(free_port)
    cat >nginx.conf <<END
worker_processes 2; pid $PWD/nginx.pid; error_log $PWD/error.log; daemon off;
events { worker_connections 64; }
http {
    access_log off; client_body_temp_path $PWD/t1; proxy_temp_path $PWD/t2; fastcgi_temp_path $PWD/t3;
    uwsgi_temp_path $PWD/t4; scgi_temp_path $PWD/t5; gzip on; gzip_types text/plain; gzip_min_length 10; default_type text/plain;
    server { listen 127.0.0.1:$port; root $SHARED/site; location /away { return 302 /; } location ~ ^/say/(.*) { return 200 "said \$1"; } }
}
END
    nginx -e "$PWD/error.log" -c "$PWD/nginx.conf" -p "$PWD" -g 'user root;' &
    local nginx=$!
    until curl -s "http://127.0.0.1:$port/" >/dev/null; do sleep 0.05; done
    curl -s "http://127.0.0.1:$port/" "http://127.0.0.1:$port/say/hello"; echo
    curl -s --compressed "http://127.0.0.1:$port/numbers" | sha256sum
    curl -s -r 100-199 "http://127.0.0.1:$port/numbers" | sha256sum
    curl -s -o /dev/null -w '%{http_code} %{redirect_url}\n' "http://127.0.0.1:$port/away" | sed "s/$port/PORT/"
    seq 30 | xargs -P 4 -I{} curl -s "http://127.0.0.1:$port/say/{}" -o 'said{}'
    cat said* | md5sum
    kill -HUP $nginx; sleep 0.2; curl -s "http://127.0.0.1:$port/" | wc -c
    kill -QUIT $nginx; wait $nginx; echo "nginx ended $?"

    # Python's, with threads.
    /usr/bin/python3 -u -m http.server 0 --bind 127.0.0.1 -d "$SHARED/site" >python.log 2>&1 &
    local python=$!
    until port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' python.log | head -1) && [[ $port ]]; do sleep 0.05; done
    seq 10 | xargs -P 3 -I{} curl -s "http://127.0.0.1:$port/numbers?{}" -o 'got{}'
    sha256sum got* | cut -d' ' -f1 | sort | uniq -c
    kill $python; wait $python || echo "python ended $?"
    rm -rf ./*.log ./*.conf t? appendonlydir
}
