// Virtual calls, generics, exceptions and arrays.
using System;
using System.Collections.Generic;

abstract class Shape { public abstract double Area(); }
class Square : Shape { double s; public Square(double s) { this.s = s; } public override double Area() { return s * s; } }
class Circle : Shape { double r; public Circle(double r) { this.r = r; } public override double Area() { return 3 * r * r; } }

class Jit {
    static int Fib(int n) { return n < 2 ? n : Fib(n - 1) + Fib(n - 2); }
    static void Main() {
        double area = 0;
        for (int i = 0; i < 20000000; i++) { Shape s = i % 3 == 0 ? (Shape)new Circle(i % 7) : new Square(i % 5); area += s.Area(); }
        var counts = new Dictionary<string, int>();
        for (int i = 0; i < 1000000; i++) { string key = "w" + i * 7919L % 5003; int n; counts.TryGetValue(key, out n); counts[key] = n + 1; }
        int caught = 0;
        for (int i = 0; i < 5000; i++) { try { if (i % 2 == 0) throw new Exception(); } catch (Exception) { caught++; } }
        Console.WriteLine("{0} {1} {2} {3}", area, counts.Count, caught, Fib(36));
    }
}
