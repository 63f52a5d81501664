# Daemons: double forks, pid files, readiness and sockets as systemd gives them, and real ones: cron, dbus-daemon, rsyslogd, sshd.
# real: limit 240
# real: small-chaos sshd and the bus's clients are cold code, which chaos translates again and again
setup() {
    ssh-keygen -q -t ed25519 -N '' -f "$SHARED/host"
    ssh-keygen -q -t ed25519 -N '' -f "$SHARED/user"
    cat >"$SHARED/notify.py" <<'END'
import os, socket, sys, time
def notify(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        address = os.environ["NOTIFY_SOCKET"]
        s.connect("\0" + address[1:] if address[0] == "@" else address)
        s.sendall(text.encode())
assert os.environ["LISTEN_PID"] == str(os.getpid()), "LISTEN_PID"
listener = socket.socket(fileno=3)
notify("READY=1\nSTATUS=serving\nMAINPID=%d" % os.getpid())
for _ in range(3):
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"served " + connection.recv(100))
notify("STOPPING=1")
END
    # A service manager in small: a socket as descriptor 3, a socket for notes.
    cat >"$SHARED/manager.py" <<'END'
import os, socket, sys
listener = socket.socket(socket.AF_UNIX); listener.bind("service.sock"); listener.listen()
notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); notes.bind("\0everypath-test-%d" % os.getpid())
pid = os.fork()
if pid == 0:
    os.dup2(listener.fileno(), 3); os.set_inheritable(3, True)
    os.execvpe(sys.executable, [sys.executable, sys.argv[1]], dict(os.environ, LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), NOTIFY_SOCKET="@" + notes.getsockname()[1:].decode()))
print(notes.recv(300).decode().replace(str(pid), "PID").split("\n"))
for n in range(3):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("service.sock"); client.sendall(b"client %d" % n); print(client.recv(100))
print(notes.recv(300), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
os.unlink("service.sock")
END
}

free_port() {
    /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Waits until a command succeeds.
until_done() {
    for ((i = 0; i < 200; i++)); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
    echo "never: $*"
}

# Whoever adopts a daemon need not wait for it.
gone() { [[ $(ps -o state= -p "$1") == @(|Z) ]]; }

run() {
    local pid port
    # Double forks, by three programs.
    # By name: what a process executes is the engine to other processes (docs/limits.md).
    local one=(start-stop-daemon --pidfile "$PWD/ssd.pid" --name sleep)
    "${one[@]}" --start --background --make-pidfile --startas /bin/sleep -- 100
    until_done "${one[@]}" --status; pid=$(<ssd.pid)
    "${one[@]}" --start --oknodo --startas /bin/sleep -- 100 | sed "s/$pid/PID/"
    "${one[@]}" --stop --quiet --remove-pidfile; echo "stopped $?"
    until_done gone "$pid"
    daemon --name=test --pidfile="$PWD/daemon.pid" --output="$PWD/daemon.log" -- sh -c 'echo one; sleep 60'
    until_done test -s daemon.log; until_done daemon --name=test --pidfile="$PWD/daemon.pid" --running
    cat daemon.log; daemon --name=test --pidfile="$PWD/daemon.pid" --stop; echo "stopped $?"
    perl -MPOSIX -e 'exit if fork; setsid; exit if fork; chdir "/"; umask 0; open STDOUT, ">", "$ARGV[0]/perl.log"; $| = 1;
        printf "group of its own %d\n", getpgrp == $$; open P, ">", "$ARGV[0]/perl.pid"; print P $$; close P;
        $SIG{TERM} = sub { print "ends\n"; exit }; sleep 100' "$PWD" 2>/dev/null || echo "perl $?"
    until_done test -s perl.pid; pid=$(<perl.pid)
    kill -TERM "$pid"; until_done gone "$pid"; cat perl.log

    # Readiness, and sockets that were opened before.
    /usr/bin/python3 "$SHARED/manager.py" "$SHARED/notify.py"
    port=$(free_port)
    systemd-socket-activate --accept --inetd -l "127.0.0.1:$port" sh -c 'read -r x; echo "inetd $x"' 2>activate.log &
    pid=$!
    until_done grep -q Listening activate.log
    for n in 1 2; do exec 7<>"/dev/tcp/127.0.0.1/$port"; echo "hello $n" >&7; cat <&7; exec 7>&-; done
    kill "$pid"; wait "$pid" || echo "activate ended $?"

    rm -f ./*.log ./*.pid ./*.clientpid
    [[ $SIZE == full ]] || return 0

    # The bus: a session of its own, calls, a service that it starts.
    dbus-run-session -- bash -c '
        dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames | grep -c string
        dbus-send --session --print-reply=literal --dest=org.freedesktop.DBus / org.freedesktop.DBus.NameHasOwner string:org.nobody
        dbus-send --session --print-reply --dest=org.nobody / org.nobody.X 2>&1 | grep -o "ServiceUnknown"
        dbus-monitor --session "type=signal,interface=org.test" >monitor & sleep 0.7; dbus-send --session --type=signal / org.test.Happened string:news
        for i in $(seq 100); do grep -q news monitor && break; sleep 0.1; done; grep -o "member=Happened" monitor; kill $!; rm monitor'

    # rsyslogd, as anybody, with queues and threads.
    cat >rsyslog.conf <<END
global(workDirectory="$PWD")
module(load="imuxsock" SysSock.Use="off")
input(type="imuxsock" Socket="$PWD/log.sock" CreatePath="off")
template(name="plain" type="string" string="%syslogtag%%msg%\n")
if \$msg contains "odd" then { action(type="omfile" file="$PWD/odd.log" template="plain") stop }
action(type="omfile" file="$PWD/all.log" template="plain" queue.type="LinkedList")
END
    rsyslogd -n -f "$PWD/rsyslog.conf" -i "$PWD/rsyslog.pid" 2>/dev/null &
    pid=$!
    until_done test -S log.sock
    for n in 1 2 3 4 5 6; do logger -u "$PWD/log.sock" -t "test$n" "$( ((n % 2)) && echo odd || echo even) message"; done
    until_done grep -q test6 all.log; until_done grep -q test5 odd.log
    kill -HUP "$pid"; logger -u "$PWD/log.sock" -t again "message"; until_done grep -q again all.log
    kill "$pid"; wait "$pid"; echo "rsyslogd ended $?"
    sort all.log odd.log

    # sshd on loopback: privilege separation, a command, a terminal, a copy, a forwarded port.
    port=$(free_port); mkdir -p /run/sshd
    cp "$SHARED/user.pub" keys; chmod 600 keys; cp "$SHARED/host" host; chmod 600 host
    printf '%s\n' "Port $port" 'ListenAddress 127.0.0.1' "HostKey $PWD/host" "PidFile $PWD/sshd.pid" "AuthorizedKeysFile $PWD/keys" \
        'StrictModes no' 'UsePAM no' 'PasswordAuthentication no' 'PermitRootLogin yes' 'Subsystem sftp internal-sftp' >sshd.conf
    /usr/sbin/sshd -D -e -f "$PWD/sshd.conf" 2>sshd.log &
    pid=$!
    until_done grep -q listening sshd.log
    local options=(-q -F /dev/null -p "$port" -i "$SHARED/user" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes)
    ssh "${options[@]}" 127.0.0.1 'echo over ssh; exit 7' </dev/null || echo "ssh $?"
    seq 50000 | ssh "${options[@]}" -C -c aes128-ctr 127.0.0.1 'sort -rn | sha256sum'
    ssh "${options[@]}" -tt 127.0.0.1 'test -t 0 && echo a terminal' </dev/null | tr -d '\r'
    seq 1000 >local; scp -q -F /dev/null -P "$port" -i "$SHARED/user" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null local "127.0.0.1:$PWD/copied" && cmp local copied && echo copied
    kill "$pid"; wait "$pid" || echo "sshd ended $?"
    rm -f ./*.log ./*.pid ./*.conf keys host log.sock local copied

    # cron, with a table of its own: jobs that run at its start.
    if unshare -m true 2>/dev/null; then
        unshare -m bash -c '
            mkdir tables run; chmod 1730 tables; echo "@reboot echo ran by cron as \$(id -un) >$PWD/ran" >tables/root; chmod 600 tables/root
            mount --bind tables /var/spool/cron/crontabs; mount --bind run /run; mount -t tmpfs none /etc/cron.d
            cron -f & pid=$!
            for i in $(seq 200); do [[ -s ran ]] && break; sleep 0.1; done
            cat ran; kill $pid; wait $pid; echo "cron ended $?"; umount /etc/cron.d /run /var/spool/cron/crontabs'
        rm -rf tables run ran
    fi
}
