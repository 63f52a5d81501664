mod inner {
    #[inline(never)]
    pub fn generic<T: std::fmt::Display>(value: T) -> String {
        format!("<{value}>")
    }
}

fn main() {
    println!("{} {}", inner::generic(3), inner::generic("x"));
}
