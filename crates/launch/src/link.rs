//! Messages between the face and the observer (see `face`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// A signal that the face got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub signal: u32,
    /// `si_code`.
    pub code: i32,
    /// It was sent to the whole process group.
    pub is_grouped: bool,
    /// The first two words of the rest of its information: sender and value.
    pub words: [u64; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// To the observer.
    Got(Got),
    /// To the face: that signal is to stop it. Stops have numbers.
    Stop(u32, u64),
    /// To the face: none is to, any more.
    Go,
    /// To the observer: the face was stopped, as the stop of that number wanted, and was continued
    /// since; or somebody had continued it before it stopped, or the kernel did not stop it.
    Back(u64),
    /// To the face: if its group has the terminal, that group is to have it.
    Lend(u32),
    /// To the observer: it has.
    Lent,
}

type Words = [u64; 4];

impl Message {
    fn words(self) -> Words {
        match self {
            Message::Got(got) => {
                let first = u64::from(got.signal) | u64::from(got.is_grouped) << 32;
                let code = u64::from(got.code.cast_unsigned());
                [first, code, got.words[0], got.words[1]]
            }
            Message::Stop(signal, number) => [u64::from(signal) | 1 << 40, number, 0, 0],
            Message::Go => [2 << 40, 0, 0, 0],
            Message::Back(number) => [3 << 40, number, 0, 0],
            Message::Lend(group) => [u64::from(group) | 4 << 40, 0, 0, 0],
            Message::Lent => [5 << 40, 0, 0, 0],
        }
    }

    fn from_words(words: Words) -> Message {
        // Or a group.
        let signal = words[0] as u32;
        match words[0] >> 40 {
            0 => Message::Got(Got {
                signal,
                code: (words[1] as u32).cast_signed(),
                is_grouped: words[0] >> 32 & 1 != 0,
                words: [words[2], words[3]],
            }),
            1 => Message::Stop(signal, words[1]),
            2 => Message::Go,
            3 => Message::Back(words[1]),
            4 => Message::Lend(signal),
            _ => Message::Lent,
        }
    }
}

/// One end.
pub(crate) struct Link(OwnedFd);

/// The other end is gone: nothing comes any more.
#[derive(Debug)]
pub(crate) struct Closed;

impl Link {
    pub fn pair() -> io::Result<(Link, Link)> {
        let (one, other) = socketpair()?;
        Ok((Link(one), Link(other)))
    }

    /// Does not wait: a process that does not listen for long misses messages.
    pub fn send(&self, message: Message) {
        let bytes = message.words().map(u64::to_le_bytes).concat();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = rustix::net::send(&self.0, &bytes, flags);
    }

    /// The next one, if it is here.
    pub fn receive(&self) -> Result<Option<Message>, Closed> {
        let mut bytes = [0; size_of::<Words>()];
        match rustix::net::recv(&self.0, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(Closed),
            Ok(_) => {
                let (words, _) = bytes.as_chunks::<8>();
                let word = |at: usize| u64::from_le_bytes(words[at]);
                let words = std::array::from_fn(word);
                Ok(Some(Message::from_words(words)))
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(_) => Err(Closed),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(crate) fn socketpair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    pair.map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_were_sent() {
        let (one, other) = Link::pair().unwrap();
        let got = |code, is_grouped| {
            Message::Got(Got {
                signal: 64,
                code,
                is_grouped,
                words: [u64::MAX, 5],
            })
        };
        let sent = [
            got(-6, true),
            got(128, false),
            Message::Stop(20, u64::MAX),
            Message::Go,
            Message::Back(7),
            Message::Lend(4_194_303),
            Message::Lent,
        ];
        for message in sent {
            one.send(message);
        }
        for message in sent {
            assert_eq!(other.receive().unwrap(), Some(message));
        }
        assert_eq!(other.receive().unwrap(), None);
        drop(one);
        assert!(other.receive().is_err());
    }
}
