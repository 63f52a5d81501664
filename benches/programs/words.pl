# Splits, counts, sorts and rewrites text: hashes, regular expressions, closures.
use strict;
use warnings;
my (%count, $vowels);
while (my $line = <STDIN>) {
    for my $word (split ' ', $line) {
        $count{$word}++;
        $vowels += ($word =~ tr/aeiou//);
    }
    $line =~ s/(\w+) (\w+)/$2 $1/g;
    $count{length $line}++;
}
my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print "$vowels ", scalar(@top), " @top[0..9]\n";
