# Field splitting, associative arrays, regular expressions, string functions.
{
    for (i = 1; i < NF; i++) count[$i]++
    total += $NF
    if ($0 ~ /^[a-f]+ .*[aeiou]{2}/) hits++
    if (match($0, /[xyz][a-m]+/)) length_sum += RLENGTH
    text = substr($0, 5, 10); gsub(/[aeiou]/, "_", text); seen[text]++
}
END { print NR, length(count), length(seen), hits, length_sum, total }
