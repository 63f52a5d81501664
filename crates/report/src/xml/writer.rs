//! Elements of XML 1.0, one after the other.
//!
//! Invariant: what is written is well-formed once every element is closed. Characters
//! that XML 1.0 has no way to say (section 2.2: most control characters) become U+FFFD.

use std::fmt::Display;
use std::io::{self, Write};

/// Names and values of an element's attributes.
pub type Attributes<'a> = &'a [(&'static str, &'a dyn Display)];

pub struct Writer<'a> {
    out: &'a mut dyn Write,
    /// Elements that are not closed yet.
    open: Vec<&'static str>,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut dyn Write) -> io::Result<Writer<'a>> {
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        let open = Vec::new();
        Ok(Writer { out, open })
    }

    /// Begins an element with others in it.
    pub fn open(&mut self, name: &'static str, attributes: Attributes) -> io::Result<()> {
        self.start(name, attributes)?;
        self.open.push(name);
        writeln!(self.out, ">")
    }

    /// Ends the one that was begun last.
    pub fn close(&mut self) -> io::Result<()> {
        match self.open.pop() {
            Some(name) => writeln!(self.out, "{:depth$}</{name}>", "", depth = self.open.len()),
            None => Ok(()),
        }
    }

    /// An element with nothing in it.
    pub fn empty(&mut self, name: &'static str, attributes: Attributes) -> io::Result<()> {
        self.start(name, attributes)?;
        writeln!(self.out, "/>")
    }

    /// An element with nothing but text in it.
    pub fn text(
        &mut self,
        name: &'static str,
        attributes: Attributes,
        text: &dyn Display,
    ) -> io::Result<()> {
        self.start(name, attributes)?;
        let text = escaped(&text.to_string());
        writeln!(self.out, ">{text}</{name}>")
    }

    /// Writes an element with the text, if there is one.
    pub fn text_of(&mut self, name: &'static str, text: Option<impl Display>) -> io::Result<()> {
        text.map_or(Ok(()), |text| self.text(name, &[], &text))
    }

    fn start(&mut self, name: &'static str, attributes: Attributes) -> io::Result<()> {
        write!(self.out, "{:depth$}<{name}", "", depth = self.open.len())?;
        for (name, value) in attributes {
            let value = escaped(&value.to_string());
            write!(self.out, " {name}=\"{value}\"")?;
        }
        Ok(())
    }
}

/// `text` as it is read again, in an attribute or between elements.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Readers make blanks and line feeds of them, if they are not references.
            '\t' => escaped.push_str("&#9;"),
            '\n' => escaped.push_str("&#10;"),
            '\r' => escaped.push_str("&#13;"),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_said_is_replaced() {
        assert_eq!(escaped("a<b>&\"'é€"), "a&lt;b&gt;&amp;&quot;'é€");
        assert_eq!(escaped("\t\r\n"), "&#9;&#13;&#10;");
        assert_eq!(
            escaped("\0\x1b[1m\u{ffff}\u{7f}"),
            "\u{fffd}\u{fffd}[1m\u{fffd}\u{7f}"
        );
    }

    #[test]
    fn elements_are_nested() {
        let mut out = Vec::new();
        let mut xml = Writer::new(&mut out).unwrap();
        xml.open("a", &[("n", &1), ("t", &"x\"y")]).unwrap();
        xml.empty("b", &[]).unwrap();
        xml.text_of("c", Some("<")).unwrap();
        xml.text_of("d", None::<u32>).unwrap();
        xml.close().unwrap();
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                        <a n=\"1\" t=\"x&quot;y\">\n <b/>\n <c>&lt;</c>\n</a>\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
