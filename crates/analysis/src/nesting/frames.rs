//! Calls of a thread that last, by the places of their return addresses.
//!
//! Approach: a call writes its return address below those of all calls around it. One at the same place or below that of a new call is
//! over, whether it returned or was left by an exception or `longjmp`. A handler of a signal is a frame without a place.

use super::STACK;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// A call: the place of its return address, and that address.
    Call { link: u64, back: u64 },
    /// The handler of a signal.
    Handler,
}

impl Frame {
    /// Whether it is over, as something is at `link` that belongs to a frame outside of it; `None`: nothing follows from it.
    fn is_over(self, link: u64, or_same: bool) -> Option<bool> {
        match self {
            Frame::Handler => None,
            Frame::Call { link: own, .. } => {
                let below = link.wrapping_sub(own);
                Some(below < STACK && (below > 0 || or_same))
            }
        }
    }

    fn is_at(self, at: u64) -> bool {
        matches!(self, Frame::Call { link, .. } if link == at)
    }
}

#[derive(Default)]
pub struct Frames {
    /// Outermost first.
    frames: Vec<Frame>,
    /// Calls that lasted when the trace began, and returned.
    before: i64,
}

impl Frames {
    pub fn depth(&self) -> i64 {
        self.frames.len() as i64 - self.before
    }

    /// Ends frames that are over, and handlers above these.
    fn cut(&mut self, link: u64, or_same: bool) {
        let mut keep = self.frames.len();
        for (at, frame) in self.frames.iter().enumerate().rev() {
            match frame.is_over(link, or_same) {
                Some(true) => keep = at,
                None => {}
                Some(false) => break,
            }
        }
        self.frames.truncate(keep);
    }

    /// Something writes a return address at `link`: frames that were left without a return are over. Whether there are any.
    pub fn leave(&mut self, link: u64) -> bool {
        let before = self.frames.len();
        self.cut(link, true);
        self.frames.len() < before
    }

    /// A call writes its return address, `back`, at `link`.
    pub fn call(&mut self, link: u64, back: u64) {
        self.leave(link);
        self.frames.push(Frame::Call { link, back });
    }

    /// A return reads its address at `link`.
    pub fn returns(&mut self, link: u64) {
        if !self.frames.last().is_some_and(|frame| frame.is_at(link)) {
            self.cut(link, false);
        }
        match self.frames.last() {
            Some(frame) if frame.is_at(link) => drop(self.frames.pop()),
            // It goes to code that called what is traced; or it is a jump, as the C library's for a handler is.
            None => self.before += 1,
            Some(_) => {}
        }
    }

    /// A handler of a signal begins.
    pub fn handle(&mut self) {
        self.frames.push(Frame::Handler);
    }

    /// It is over.
    pub fn handled(&mut self) {
        let handler = self.frames.iter().rposition(|one| *one == Frame::Handler);
        self.frames.truncate(handler.unwrap_or(self.frames.len()));
    }

    /// Control comes to an address from code that is not in the trace: if a call returns there, it and those inside of it are over.
    pub fn back_at(&mut self, to: u64) {
        let is_there = |frame: &Frame| matches!(frame, Frame::Call { back, .. } if *back == to);
        let frame = self.frames.iter().rposition(is_there);
        self.frames.truncate(frame.unwrap_or(self.frames.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_return_or_are_left() {
        let mut frames = Frames::default();
        for (link, back) in [(1000, 1), (900, 2), (800, 3)] {
            frames.call(link, back);
        }
        frames.returns(800);
        assert_eq!(frames.depth(), 2);
        // Something that was pushed, and is jumped to.
        frames.returns(700);
        assert_eq!(frames.depth(), 2);
        frames.call(700, 4);
        frames.call(600, 5);
        // longjmp to the outermost call, which calls again.
        frames.call(900, 6);
        assert_eq!(frames.depth(), 2);
        // Another stack.
        frames.call(1 << 40, 7);
        frames.returns(1 << 40);
        // From code that is not traced.
        frames.call(850, 8);
        frames.call(750, 9);
        frames.back_at(8);
        assert_eq!(frames.depth(), 2);
        frames.returns(900);
        frames.returns(1000);
        // The one in which the trace began.
        frames.returns(1100);
        assert_eq!(frames.depth(), -1);
    }

    #[test]
    fn handlers_are_calls() {
        let mut frames = Frames::default();
        frames.call(1000, 1);
        frames.handle();
        frames.call(500, 2);
        frames.returns(500);
        // To the code that asks the kernel to go back.
        frames.returns(600);
        assert_eq!(frames.depth(), 2);
        frames.handled();
        assert_eq!(frames.depth(), 1);
        // A handler that is left by siglongjmp, and so is the call around it.
        frames.call(900, 3);
        frames.handle();
        frames.call(500, 4);
        frames.call(900, 5);
        assert_eq!(frames.depth(), 2);
    }
}
