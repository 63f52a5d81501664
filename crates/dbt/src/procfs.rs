//! Files of `/proc/self` that are shown without the engine: opened, and read again.

use agent::procfs::syscall::{Asked, of_other, of_reader};
use agent::procfs::{Shown, ShownFile, open_files, shown};
use agent::thread::{Thread, ThreadContext, reg};
use sys::nr;

use crate::dispatch::Call;
use crate::engine;
use crate::locate::place_of;

/// Opens one, for the call that asks for it.
pub fn open(
    context: &ThreadContext,
    thread: &Thread,
    call: &Call,
    (which, cloexec): (Shown, bool),
) -> isize {
    let text = text(context, thread, call, which);
    let opened = text.and_then(|text| shown::file_of(&text, cloexec));
    match opened {
        Ok(fd) => {
            engine::with(|_| open_files::add(fd, which));
            fd as isize
        }
        Err(errno) => errno.as_result(),
    }
}

/// Makes the text anew if the program is about to read one from its beginning.
pub fn reread(context: &ThreadContext, thread: &Thread, call: &Call) {
    let fd = call.args[0] as i32;
    if !open_files::may_be(fd) {
        return;
    }
    let at_beginning = match call.number as usize {
        nr::READ | nr::READV => sys::position(fd) == Ok(0),
        nr::PREAD64 | nr::PREADV | nr::PREADV2 => call.args[3] == 0,
        _ => false,
    };
    if at_beginning
        && let Some(which) = engine::with(|_| open_files::find(fd))
        && let Ok(text) = text(context, thread, call, which)
    {
        shown::replace(fd, &text);
    }
}

fn text(
    context: &ThreadContext,
    thread: &Thread,
    call: &Call,
    which: Shown,
) -> sys::Result<alloc::vec::Vec<u8>> {
    if which.file != ShownFile::Syscall {
        return engine::with(|engine| {
            let regions = &engine.process.regions;
            shown::text(which, shown::Facts { regions, thread })
        });
    }
    // An instruction of a call has two bytes, and the thread goes on behind it.
    let behind = |pc| Some(place_of(pc)??.app_pc + 2);
    let kernels = shown::kernels(which)?;
    let about = which.task.unwrap_or_else(sys::getpid);
    Ok(match about == sys::gettid() {
        true => of_reader(&Asked {
            number: call.number,
            args: call.args,
            sp: context.regs[reg::RSP],
            pc: call.next,
        }),
        false => of_other(&kernels, behind),
    })
}
