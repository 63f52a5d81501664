# Perl: closures, regular expressions, sorting, formats, forks, signals, eval.
setup() {
    python3 "$REAL/../../benches/programs/gen_text.py" 1 >"$SHARED/text"
    head -c 60000 "$SHARED/text" >"$SHARED/text.small"
}
# real: small-chaos an interpreter's main loop is one indirect jump

run() {
    local text=$SHARED/text
    [[ $SIZE == full ]] || text=$SHARED/text.small
    cat >script.pl <<'END'
use strict; use warnings;
use List::Util qw(sum reduce shuffle first);
use POSIX qw(:sys_wait_h floor strftime);
use Digest::SHA qw(sha256_hex);
use Storable qw(freeze thaw dclone);
use Data::Dumper; $Data::Dumper::Sortkeys = 1; $Data::Dumper::Indent = 1;
use Time::HiRes qw(usleep);
use Encode qw(encode decode);
use IO::Select; use IO::Socket::UNIX; use Socket;
open my $in, '<', $ARGV[0] or die;
my (%count, @lines);
while (my $line = <$in>) { chomp $line; push @lines, $line; $count{lc $_}++ for $line =~ /\b(\w{3,})\b/g; }
my @top = (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0 .. 9];
printf "%-12s %6d\n", $_, $count{$_} for @top;
my @sub = map { my $n = $_; sub { $n += shift; $n } } 1 .. 5;
print join(',', map { $sub[$_]->(10) for 1 .. 3; $sub[$_]->(1) } 0 .. 4), "\n";
my $text = join ' ', @lines;
(my $swapped = $text) =~ s/(\w+)\s+(\w+)/$2 $1/g;
print sha256_hex($swapped), "\n";
print Dumper(thaw freeze { list => [1 .. 4], name => 'x', nested => { a => [{}] } });
my $balanced = qr/\((?:[^()]++|(?R))*\)/;
print "balanced: $&\n" if 'x(a(b)(c(d)))y)' =~ $balanced;
print join('|', map { sprintf '%.3f', $_ } sort { $a <=> $b } map { sin $_ } 1 .. 8), "\n";
eval { die { code => 42 } }; print "caught $@->{code}\n";
eval { local $SIG{ALRM} = sub { die "alarm\n" }; Time::HiRes::ualarm(50_000); select undef, undef, undef, 5; };
print "after: $@";
pipe my $r, my $w; my @pid;
for my $n (1 .. 4) {
    my $pid = fork // die; push @pid, $pid;
    next if $pid;
    close $r; syswrite $w, "child $n\n"; exit $n;
}
close $w; print sort <$r>;
print "status ", join(' ', map { waitpid $_, 0; $? >> 8 } @pid), "\n";
local $SIG{USR1} = sub { print "USR1\n" }; kill USR1 => $$;
socketpair my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC or die;
if (!fork) { close $a; my $l = <$b>; print $b uc $l; close $b; exit }
close $b; $a->autoflush(1); print $a "over a socket\n"; print scalar <$a>; wait;
print encode('UTF-8', scalar reverse decode('UTF-8', "gr\xc3\xbc\xc3\x9fe")), "\n";
print `echo from a shell; exit 3`, $? >> 8, "\n";
my $sum = 0; for my $i (1 .. ($ENV{SIZE} eq 'full' ? 300_000 : 3_000)) { $sum = ($sum * 7 + $i) % 1_000_003 } print "$sum\n";
print eval 'my $x = 6; $x * 7', "\n";
sub DESTROY { print "destroyed\n" } { my $o = bless {}; }
our ($name, $value) = ('format', 3.14159);
format STDOUT =
@<<<<<<<<< @>>>>> @##.##
$name, 'right', $value
.
write;
END
    perl script.pl "$text"
    perl -MO=Deparse -e 'print map { $_ * 2 } grep { $_ & 1 } 1 .. 9'
    perl -ne 'print if /the/i .. /and/i' "$text" | md5sum
    perl -MPOSIX -e 'POSIX::_exit(9)' || echo "exit $?"
    perl -e 'use threads; use threads::shared; my $n : shared = 0;
        $_->join for map { threads->create(sub { for (1 .. 500) { lock $n; $n++ } }) } 1 .. 4; print "$n\n"'
}
