# Hashes, ciphers, signatures, certificates, and a TLS connection on loopback.
setup() {
    head -c 300000 /usr/bin/bash >"$SHARED/data"
    openssl genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$SHARED/rsa"
    openssl genpkey -algorithm ED25519 -out "$SHARED/ed25519"
    openssl req -x509 -key "$SHARED/rsa" -subj /CN=localhost -days 3650 -out "$SHARED/cert"
}

run() {
    local data=$SHARED/data cipher
    openssl dgst -sha3-512 <"$data"; openssl dgst -blake2b512 <"$data"; openssl md5 <"$data"
    for cipher in aes-256-cbc aes-128-ctr chacha20 camellia-192-cbc; do
        openssl enc -$cipher -pbkdf2 -iter 500 -S 0011223344556677 -k secret -in "$data" -out "$cipher.enc"
        openssl enc -d -$cipher -pbkdf2 -iter 500 -S 0011223344556677 -k secret -in "$cipher.enc" | cmp - "$data"
    done
    openssl dgst -sha256 -sign "$SHARED/rsa" -out signature "$data"
    openssl rsa -in "$SHARED/rsa" -pubout -out public 2>/dev/null
    openssl dgst -sha256 -verify public -signature signature "$data"
    openssl pkeyutl -sign -inkey "$SHARED/ed25519" -rawin -in public -out ed.signature
    openssl x509 -in "$SHARED/cert" -noout -subject -ext subjectKeyIdentifier
    openssl prime -checks 20 170141183460469231731687303715884105727
    openssl ecparam -name prime256v1 -genkey -noout | openssl ec -noout -text 2>/dev/null | wc -l
    # A handshake through a port that the kernel picks.
    openssl s_server -accept 127.0.0.1:0 -key "$SHARED/rsa" -cert "$SHARED/cert" -www >server 2>&1 &
    local server=$! port
    until port=$(sed -n 's/^ACCEPT 127.0.0.1://p' server) && [[ $port ]]; do sleep 0.05; done
    (echo 'GET / HTTP/1.0'; echo; sleep 1) |
        openssl s_client -connect "127.0.0.1:$port" -CAfile "$SHARED/cert" -tls1_3 2>/dev/null |
        grep -aE '^(New, TLS|Verify return code|HTTP)' | sort -u
    kill $server; wait $server || echo "server ended $?"
    rm server
}
