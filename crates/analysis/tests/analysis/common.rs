//! Random input that several tests draw.

use analysis::cct::Event;
use arbtest::arbitrary::{Result, Unstructured};
use trace::Label;

/// Events of a thread that does not end before they do: up to so many functions, and so many
/// events behind its beginning.
pub fn events(u: &mut Unstructured<'_>, functions: u32, most: usize) -> Result<Vec<Event>> {
    let functions = u.int_in_range(1..=functions)?;
    let mut events = vec![Event::Begin(Label::THREAD)];
    let mut depth = 0;
    for _ in 0..u.int_in_range(0..=most)? {
        let event = match u.int_in_range(0..=19)? {
            0 => Event::Begin(Label::signal(u.int_in_range(1..=2)?)),
            1..=12 => Event::Enter(Label(256 + u.int_in_range(0..=functions - 1)?)),
            _ if depth > 0 => Event::Leave,
            _ => continue,
        };
        depth += if event == Event::Leave { -1 } else { 1 };
        events.push(event);
    }
    Ok(events)
}
