//! The program's view of its signals, and frames for its handlers.
//!
//! The kernel's mask is the program's, except that the six synchronous signals
//! are never blocked in the kernel (the engine needs their faults). Handlers
//! the program installs are replaced by the engine's; default and ignored
//! dispositions go to the kernel as they are, so job control, core dumps, exec
//! inheritance and automatic reaping stay the kernel's work.

use sys::signal::*;

use crate::action_snapshot::Taken;
use crate::held_signals;
use crate::memory;
use crate::thread::Thread;

/// Dispositions as the program set them. Shared by threads (CLONE_SIGHAND).
#[derive(Clone, Debug)]
pub struct SignalTable {
    /// The kernel resets a handler that is for one signal (SA_RESETHAND), not this entry, unless
    /// the signal is always ours: see [`SignalTable::shown`].
    actions: [SigAction; NSIG as usize + 1],
    /// Copies of the actions, which the engine's handler reads when a signal arrives.
    taken: [Taken; NSIG as usize + 1],
}

impl SignalTable {
    pub const fn new() -> SignalTable {
        let default = SigAction {
            handler: SIG_DFL,
            flags: 0,
            restorer: 0,
            mask: SigSet::EMPTY,
        };
        SignalTable {
            actions: [default; NSIG as usize + 1],
            taken: [const { Taken::new() }; NSIG as usize + 1],
        }
    }

    /// The action that the program last set.
    pub fn action(&self, signal: u32) -> SigAction {
        self.actions[signal as usize]
    }

    /// Changes what the program wants. The kernel hears of a handler after this.
    pub fn set(&mut self, signal: u32, action: SigAction) {
        self.actions[signal as usize] = action;
        // A signal of the others that arrives was taken while it had a handler: the
        // last one, if the kernel has another disposition by now.
        if is_handled(&action) || always_ours(signal) {
            self.taken[signal as usize].publish(&action);
        }
    }

    /// The action as the program sees it.
    pub fn shown(&self, signal: u32) -> SigAction {
        let mut action = self.action(signal);
        if action.flags & SA_RESETHAND != 0 && is_handled(&action) && !always_ours(signal) {
            let mut kernels = SigAction::default();
            // SAFETY: only asks.
            let asked = unsafe { sys::sigaction(signal, None, Some(&mut kernels)) };
            if asked.is_ok() && kernels.handler == SIG_DFL {
                action.handler = SIG_DFL;
            }
        }
        action
    }

    /// The action of a signal that has just arrived, as the kernel had it when it took the
    /// signal. Takes no lock: the engine's handler asks, wherever the thread is.
    pub fn at_arrival(&self, signal: u32) -> SigAction {
        self.taken[signal as usize].read()
    }

    /// A handler that is for one signal is used up by a signal that is always ours.
    pub fn use_up(&mut self, signal: u32, action: &SigAction) {
        let once = action.flags & SA_RESETHAND != 0 && action.handler != SIG_IGN;
        if once && always_ours(signal) && self.action(signal) == *action {
            let handler = SIG_DFL;
            self.set(signal, SigAction { handler, ..*action });
        }
    }

    /// Does as CLONE_CLEAR_SIGHAND in a child: sets the default for every signal
    /// that is not ignored (`kernel/signal.c:flush_signal_handlers`).
    pub fn clear(&mut self) {
        for signal in 1..=NSIG {
            let handler = match self.action(signal).handler {
                SIG_IGN => SIG_IGN,
                _ => SIG_DFL,
            };
            self.set(
                signal,
                SigAction {
                    handler,
                    ..SigAction::default()
                },
            );
        }
    }

    /// Takes over the actions after an exec: ignored signals stay ignored.
    pub fn inherit(&mut self) {
        for signal in 1..=NSIG {
            let mut action = SigAction::default();
            // SAFETY: only asks.
            if unsafe { sys::sigaction(signal, None, Some(&mut action)) }.is_ok()
                && action.handler == SIG_IGN
            {
                self.set(signal, action);
            }
        }
    }
}

/// Whether the program has a handler.
pub const fn is_handled(action: &SigAction) -> bool {
    action.handler != SIG_DFL && action.handler != SIG_IGN
}

impl Default for SignalTable {
    fn default() -> Self {
        SignalTable::new()
    }
}

/// The engine's entry points as the kernel needs them.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub handler: u64,
    pub restorer: u64,
}

/// Signals whose handler is the engine's whatever the program wants.
pub const fn always_ours(signal: u32) -> bool {
    SigSet::SYNCHRONOUS.has(signal)
}

/// The action to give the kernel for what the program wants.
pub fn kernel_action(signal: u32, wanted: &SigAction, entry: Entry) -> SigAction {
    let handled = is_handled(wanted);
    if !handled && !always_ours(signal) {
        return *wanted;
    }
    let kept = SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT;
    let mut flags = SA_SIGINFO | SA_ONSTACK | SA_RESTORER | SA_NODEFER;
    if handled {
        flags |= wanted.flags & kept;
    }
    if !always_ours(signal) {
        // Reset when it takes the signal, as natively.
        flags |= wanted.flags & SA_RESETHAND;
    }
    // Faults of the engine itself while it handles a signal must arrive, and what a filter
    // says of calls that it makes.
    let faults = [SIGSEGV, SIGBUS, SIGSYS].map(SigSet::only);
    let faults = faults.into_iter().fold(SigSet::EMPTY, SigSet::with);
    SigAction {
        handler: entry.handler,
        flags,
        restorer: entry.restorer,
        mask: SigSet::ALL.without(faults),
    }
}

/// Installs the engine's handlers for the synchronous signals.
pub fn install(table: &SignalTable, entry: Entry) {
    for signal in 1..=NSIG {
        if always_ours(signal) {
            let action = kernel_action(signal, &table.action(signal), entry);
            // SAFETY: the engine's handler runs at any instruction.
            let _ = unsafe { sys::sigaction(signal, Some(&action), None) };
        }
    }
}

/// A frame cannot be built: where it would have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackUnwritable {
    pub at: u64,
    pub len: u64,
}

/// Size of the extended state behind `fpstate`, from the words the kernel puts
/// in its software-reserved bytes (`struct _fpx_sw_bytes`, at 464).
fn xstate_size(fpstate: u64) -> u64 {
    const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
    if fpstate == 0 {
        return 0;
    }
    let magic: u32 = memory::read(fpstate + 464).unwrap_or(0);
    let extended: u32 = memory::read(fpstate + 468).unwrap_or(0);
    if magic == FP_XSTATE_MAGIC1 && (512..1 << 20).contains(&extended) {
        u64::from(extended)
    } else {
        512
    }
}

/// Whether `sp` lies in the program's alternate stack, whatever its flags.
const fn within_altstack(stack: &SigStack, sp: u64) -> bool {
    sp > stack.sp && sp - stack.sp <= stack.size
}

/// Whether `sp` is on the program's alternate stack.
pub fn on_altstack(stack: &SigStack, sp: u64) -> bool {
    stack.flags & SS_DISABLE == 0 && stack.flags & SS_AUTODISARM == 0 && within_altstack(stack, sp)
}

/// A handler starts with the initial x87 and vector state, as after exec: the
/// extended state that sigreturn loads is made to say so.
fn reset_state(fpstate: u64, size: u64) {
    const CONTROL: u64 = 0x37f;
    const MXCSR: u64 = 0x1f80;
    if size < 512 {
        return;
    }
    // Control word; status word, tags, opcode: clear. Then mxcsr with its mask.
    let mask: u32 = memory::read(fpstate + 28).unwrap_or(0xffff);
    memory::write(fpstate, &CONTROL);
    memory::write(fpstate + 24, &(MXCSR | u64::from(mask) << 32));
    if size > 512 {
        // No component is present: all are loaded with their initial value.
        memory::write(fpstate + 512, &0u64);
    } else {
        memory::write_bytes(fpstate + 32, &[0u8; 384]);
    }
}

/// Addresses of a handler's frame on the stack.
///
/// ```text
///  interrupted rsp - 128 (below the red zone), or top of the alternate stack
///    extended state, 64-byte aligned     copied from the kernel's frame
///    SigFrame, 8 below a multiple of 16  <- rsp of the handler
/// ```
struct Layout {
    fpstate: u64,
    frame: u64,
    end: u64,
}

impl Layout {
    /// As `arch/x86/kernel/signal.c:get_sigframe`, for `size` bytes of extended state.
    /// `None`: the frame does not fit the alternate stack.
    fn of(stack: &SigStack, flags: u64, rsp: u64, size: u64) -> Option<Layout> {
        let mut end = rsp.wrapping_sub(128);
        let enters = flags & SA_ONSTACK != 0 && stack.size != 0 && !on_altstack(stack, end);
        if enters {
            end = stack.sp.wrapping_add(stack.size);
        }
        let fpstate = end.wrapping_sub(size) & !63;
        let frame = (fpstate.wrapping_sub(size_of::<SigFrame>() as u64) & !15).wrapping_sub(8);
        let bounded = enters || on_altstack(stack, rsp);
        (!bounded || within_altstack(stack, frame)).then_some(Layout {
            fpstate,
            frame,
            end,
        })
    }

    fn unwritable(&self) -> StackUnwritable {
        StackUnwritable {
            at: self.frame,
            len: self.end.wrapping_sub(self.frame),
        }
    }
}

/// Builds the frame for the program's handler from the kernel's own frame
/// (`uc` already holds the program's registers at an exact boundary), and
/// turns `uc` into the state in which the handler starts. If that fails, `uc` and
/// `thread` are as before.
pub fn push_frame(
    thread: &mut Thread,
    action: &SigAction,
    (signal, info): (u32, &SigInfo),
    uc: &mut UContext,
    mask: SigSet,
) -> Result<u64, StackUnwritable> {
    const NOWHERE: StackUnwritable = StackUnwritable { at: 0, len: 0 };
    let old_stack = thread.altstack;
    let size = xstate_size(uc.mcontext.fpstate);
    // The kernel needs the restorer, too.
    let has_restorer = action.flags & SA_RESTORER != 0;
    let layout = Layout::of(&old_stack, action.flags, uc.mcontext.rsp, size)
        .filter(|_| has_restorer)
        .ok_or(NOWHERE)?;
    let (fpstate, frame_at) = (layout.fpstate, layout.frame);
    if memory::is_ours(frame_at, layout.end.max(frame_at)) {
        return Err(NOWHERE);
    }
    let mut shown = *uc;
    shown.link = 0;
    shown.stack = old_stack;
    shown.sigmask = mask;
    shown.mcontext.fpstate = if size == 0 { 0 } else { fpstate };
    let frame = SigFrame {
        pretcode: action.restorer,
        uc: shown,
        info: *info,
    };
    let copied = copy_program(uc.mcontext.fpstate, fpstate, size);
    if !copied || !memory::write(frame_at, &frame) {
        return Err(layout.unwritable());
    }
    reset_state(uc.mcontext.fpstate, size);
    if old_stack.flags & SS_AUTODISARM != 0 {
        thread.altstack = SigStack {
            sp: 0,
            flags: SS_DISABLE,
            pad: 0,
            size: 0,
        };
    }
    let registers = &mut uc.mcontext;
    registers.rdi = u64::from(signal);
    registers.rsi = frame_at + core::mem::offset_of!(SigFrame, info) as u64;
    registers.rdx = frame_at + core::mem::offset_of!(SigFrame, uc) as u64;
    registers.rax = 0;
    registers.rsp = frame_at;
    registers.rip = action.handler;
    // A return to selectors that do not exist (`dbt::sigreturn`) has left them here.
    registers.set_user_segments();
    // The kernel clears DF, RF and TF for a handler (arch/x86/kernel/signal.c).
    registers.eflags &= !(1 << 10 | 1 << 16 | 1 << 8);
    Ok(frame_at)
}

/// Copies `len` bytes from the kernel's frame to the program; `false`: not all could be written.
fn copy_program(from: u64, to: u64, len: u64) -> bool {
    let mut buffer = [0u8; 1024];
    let mut done = 0;
    while done < len {
        let step = (len - done).min(1024) as usize;
        if memory::read_some(from + done, &mut buffer[..step]) < step
            || !memory::write_bytes(to.wrapping_add(done), &buffer[..step])
        {
            return false;
        }
        done += step as u64;
    }
    true
}

/// Makes `wanted` the program's alternate stack, as `kernel/signal.c:do_sigaltstack` does, with
/// the stack pointer at `sp`.
pub fn change_altstack(
    thread: &mut Thread,
    wanted: &SigStack,
    sp: u64,
    minimum: u64,
) -> Result<(), sys::Errno> {
    if on_altstack(&thread.altstack, sp) {
        return Err(sys::Errno::EPERM);
    }
    let mode = wanted.flags & !SS_AUTODISARM;
    if mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE {
        return Err(sys::Errno::EINVAL);
    }
    if mode == SS_DISABLE {
        thread.altstack = SigStack {
            sp: 0,
            flags: wanted.flags,
            pad: 0,
            size: 0,
        };
        return Ok(());
    }
    if wanted.size < minimum {
        return Err(sys::Errno::ENOMEM);
    }
    thread.altstack = SigStack {
        pad: 0,
        flags: wanted.flags & SS_AUTODISARM,
        ..*wanted
    };
    Ok(())
}

/// The program's `sigaltstack`. Returns what the call returns.
pub fn sigaltstack(thread: &mut Thread, new: u64, old: u64, sp: u64, minimum: u64) -> isize {
    let current = thread.altstack;
    let on_stack = on_altstack(&current, sp);
    if new != 0 {
        let Some(wanted) = memory::read::<SigStack>(new) else {
            return sys::Errno::EFAULT.as_result();
        };
        if let Err(errno) = change_altstack(thread, &wanted, sp, minimum) {
            return errno.as_result();
        }
    }
    if old != 0 {
        let mut shown = current;
        if shown.flags & SS_DISABLE != 0 {
            shown.flags &= SS_DISABLE | SS_AUTODISARM;
        } else if on_stack {
            shown.flags |= SS_ONSTACK;
        }
        if !memory::write(old, &shown) {
            return sys::Errno::EFAULT.as_result();
        }
    }
    0
}

/// Everything but the synchronous signals.
pub const HOLD: SigSet = SigSet(!SigSet::SYNCHRONOUS.0);

/// Gives a signal back to the kernel, with its information.
pub fn requeue(signal: u32, info: &SigInfo) {
    if signal != 0 {
        send_on(sys::gettid(), signal, info);
    }
}

/// Queues a signal to a thread of the process.
fn send_on(tid: u32, signal: u32, info: &SigInfo) {
    // SAFETY: queues a signal; the kernel copies `info`.
    let queued = unsafe {
        let target = [
            sys::getpid() as usize,
            tid as usize,
            signal as usize,
            info as *const SigInfo as usize,
            0,
            0,
        ];
        sys::raw::syscall(sys::nr::RT_TGSIGQUEUEINFO, target)
    };
    if queued < 0 {
        let _ = sys::tgkill(sys::getpid(), tid, signal);
    }
}

/// Keeps a synchronous signal that was sent and cannot be delivered now. A
/// second one of the same number is lost, as in the kernel.
pub fn hold(thread: &mut Thread, signal: u32, info: &SigInfo) {
    if !thread.held.has(signal) {
        thread.held = thread.held.with(SigSet::only(signal));
        thread.held_info[held_signals::slot(signal)] = *info;
    }
}

/// Keeps a synchronous signal that the program blocks. One that was sent to the process, which
/// the kernel does not say for certain, is for a thread that waits for it, or any.
pub fn hold_blocked(thread: &mut Thread, signal: u32, info: &SigInfo) {
    let to_thread = info.code == code::SI_TKILL || thread.is_vfork_child;
    if to_thread || !held_signals::put(signal, info) {
        return hold(thread, signal, info);
    }
    if let Some(tid) = held_signals::waiter(signal)
        && let Some(info) = held_signals::take(signal)
    {
        send_on(tid, signal, &info);
    }
}

/// The synchronous signals that wait for the program to open them in this thread.
pub fn held(thread: &Thread) -> SigSet {
    match thread.is_vfork_child {
        true => thread.held,
        false => thread.held.with(held_signals::all()),
    }
}

/// Whether what is held is the question of a tracer, which the program cannot block.
pub fn holds_question(thread: &Thread) -> bool {
    let info = &thread.held_info[held_signals::slot(SIGFPE)];
    thread.held.has(SIGFPE) && crate::tracers::is_question(SIGFPE, info)
}

/// Takes back one that is held.
pub fn take_held(thread: &mut Thread, signal: u32) -> Option<SigInfo> {
    if thread.held.has(signal) {
        thread.held = thread.held.without(SigSet::only(signal));
        return Some(thread.held_info[held_signals::slot(signal)]);
    }
    match thread.is_vfork_child {
        true => None,
        false => held_signals::take(signal),
    }
}

/// Gives those of `which` that are held back to the kernel, which must block them.
pub fn requeue_held(thread: &mut Thread, which: SigSet) {
    let which = SigSet(which.0 & held(thread).0);
    for signal in (1..=31).filter(|&signal| which.has(signal)) {
        if let Some(info) = take_held(thread, signal) {
            requeue(signal, &info);
        }
    }
}

/// Sends again what was held while the program blocked it.
pub fn release_held(thread: &mut Thread) {
    let ready = held(thread).without(thread.blocked);
    if ready != SigSet::EMPTY {
        let thread = core::hint::black_box(thread);
        sys::sigprocmask(SIG_BLOCK, ready);
        requeue_held(thread, ready);
        sys::sigprocmask(SIG_UNBLOCK, ready);
    }
}

/// Blocks all asynchronous signals and returns the kernel mask that was in
/// force. `None`: a signal has arrived in the engine before. The kernel took it, so its handler
/// runs first: what the program wanted to do is done again after that.
pub fn quiesce(thread: &mut Thread) -> Option<SigSet> {
    // The handler changes the thread until the mask is set.
    let thread = core::hint::black_box(thread);
    let mask = sys::sigprocmask(SIG_SETMASK, HOLD);
    thread.pending.is_none().then_some(mask)
}
