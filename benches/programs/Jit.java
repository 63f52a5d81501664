// Four threads of hashing, sorting and allocation; virtual calls.
import java.util.*;
import java.util.stream.*;

public class Jit {
    interface Step { int next(int x); }
    static long work(int seed) {
        Step[] steps = {x -> x * 31 + 7, x -> x ^ x >>> 5, x -> Integer.rotateLeft(x, 3)};
        int x = seed;
        for (int i = 0; i < 20_000_000; i++) x = steps[(x ^ i & 0x7fffffff) & 0x7fffffff & 1 | (i % 3 == 0 ? 0 : 1)].next(x);
        Map<Integer, List<Integer>> groups = new TreeMap<>();
        for (int i = 0; i < 300_000; i++) groups.computeIfAbsent((i * 7919 + seed) % 1009, k -> new ArrayList<>()).add(i ^ x);
        long sum = x;
        for (List<Integer> list : groups.values()) { Collections.sort(list); sum = sum * 31 + list.get(list.size() / 2); }
        return sum;
    }
    public static void main(String[] arguments) throws Exception {
        long[] sums = new long[4];
        Thread[] threads = new Thread[4];
        for (int t = 0; t < 4; t++) { int n = t; threads[t] = new Thread(() -> sums[n] = work(n)); threads[t].start(); }
        for (Thread t : threads) t.join();
        System.out.println(Arrays.toString(sums) + IntStream.range(0, 3_000_000).parallel().mapToLong(i -> i % 7 * (long) i).sum());
    }
}
