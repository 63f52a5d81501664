# Java: compiled and interpreted, threads, collectors, faults that become exceptions; javac itself.
# real: limit 300
# real: small-chaos every compiled method is new code, which chaos drops at once
setup() {
    mkdir "$SHARED/classes"
    cat >"$SHARED/Mix.java" <<'END'
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.stream.*;

public class Mix {
    interface Shape { double area(); }
    record Square(double side) implements Shape { public double area() { return side * side; } }
    record Circle(double radius) implements Shape { public double area() { return 3 * radius * radius; } }
    static int depth(int n) { return depth(n + 1) + 1; }
    public static void main(String[] arguments) throws Exception {
        int rounds = Integer.parseInt(arguments[0]);
        ExecutorService pool = Executors.newFixedThreadPool(3);
        List<Future<Long>> parts = new ArrayList<>();
        for (int t = 0; t < 6; t++) {
            final int seed = t;
            parts.add(pool.submit(() -> { long h = seed; for (int i = 0; i < rounds; i++) h = h * 31 + (i ^ h >>> 7); return h; }));
        }
        long sum = 0;
        for (Future<Long> part : parts) sum += part.get();
        pool.shutdown();
        System.out.println(sum);
        double area = 0;
        for (int i = 0; i < rounds; i++) { Shape s = i % 3 == 0 ? new Circle(i % 7) : new Square(i % 5); area += s.area(); }
        System.out.println(area);
        TreeMap<Integer, Long> lengths = IntStream.range(0, rounds / 10).parallel().mapToObj(n -> "" + n)
            .collect(Collectors.groupingBy(s -> s.length(), TreeMap::new, Collectors.counting()));
        System.out.println(lengths);
        int caught = 0;
        for (int i = 0; i < 200; i++) { try { Object o = i % 2 == 0 ? null : "x"; o.hashCode(); Integer n = (Integer) o; } catch (NullPointerException | ClassCastException e) { caught++; } }
        try { depth(0); } catch (StackOverflowError e) { caught++; }
        System.out.println(caught);
        AtomicInteger counter = new AtomicInteger(); Object lock = new Object();
        Thread[] threads = new Thread[4];
        for (int t = 0; t < 4; t++) { threads[t] = new Thread(() -> { for (int i = 0; i < 1000; i++) synchronized (lock) { counter.incrementAndGet(); } }); threads[t].start(); }
        for (Thread t : threads) t.join();
        byte[][] garbage = new byte[50][]; for (int i = 0; i < 2000; i++) garbage[i % 50] = new byte[10000];
        System.gc();
        System.out.println(counter + " " + new String(new ProcessBuilder("echo", "child").start().getInputStream().readAllBytes()).trim());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook")));
        System.exit(5);
    }
}
END
    javac -d "$SHARED/classes" "$SHARED/Mix.java"
}

run() {
    local rounds=200000
    [[ $SIZE == full ]] || rounds=1000
    java -XX:-UsePerfData -cp "$SHARED/classes" Mix $rounds || echo "java: $?"
    [[ $SIZE == full ]] || return 0
    java -XX:-UsePerfData -Xint -XX:+UseSerialGC -cp "$SHARED/classes" Mix 1000 || echo "java: $?"
    javac -d . "$SHARED/Mix.java"
}
