//! The calling context tree (CCT) of a list of events: listing 3.1, the slow
//! and obvious structure from which everything else can be defined.
//!
//! A run of one thread is a list of [`Event`]s. Its first event may be
//! [`Event::Begin`] with `[thread]` or `__root__`, as the engine records it, or
//! a plain [`Event::Enter`], as the paper's algorithms have it; then there is a
//! new root whenever the stack is empty.

use std::collections::HashMap;

use trace::Label;

use crate::forest::{Builder, Forest, NodeId};

/// Events of a thread, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An activation begins, called from the current one.
    Enter(Label),
    /// An activation begins that nothing called: a thread, a signal's handler.
    /// Its context is itself alone, whatever was active before.
    Begin(Label),
    /// The newest activation ends. Without one, nothing happens.
    Leave,
    /// The thread goes to a stack where nothing is active yet: what begins there is called by
    /// the current activation, or with `under_root` by the thread's root. The thread's first
    /// stack is number 0.
    NewStack { stack: u32, under_root: bool },
    /// The thread goes to a stack that it had left: the newest activation there is the current one.
    Stack(u32),
    /// The newest activation of a stack that was left goes on on the current one, too, until it
    /// leaves that.
    Bridge(u32),
}

/// Items of the live activations of a thread, on all its stacks.
#[derive(Clone, Debug)]
pub struct Live<T> {
    /// Items of the current stack; of those above which it was begun, too.
    now: Vec<T>,
    stack: u32,
    left: HashMap<u32, Vec<T>>,
}

impl<T> Default for Live<T> {
    fn default() -> Live<T> {
        Live {
            now: Vec::new(),
            stack: 0,
            left: HashMap::new(),
        }
    }
}

impl<T: Clone> Live<T> {
    pub fn push(&mut self, item: T) {
        self.now.push(item);
    }

    pub fn pop(&mut self) -> Option<T> {
        self.now.pop()
    }

    pub fn last(&self) -> Option<&T> {
        self.now.last()
    }

    /// The items of the current stack, oldest first.
    pub fn items(&self) -> &[T] {
        &self.now
    }

    /// Follows an event of stacks; `false` for the others.
    pub fn switch(&mut self, event: Event) -> bool {
        match event {
            Event::NewStack { stack, under_root } => {
                let first = match self.stack {
                    0 => &self.now,
                    _ => self.left.get(&0).unwrap_or(&self.now),
                };
                let begun = match under_root {
                    true => first.first().cloned().into_iter().collect(),
                    false => self.now.clone(),
                };
                self.go(stack, begun);
            }
            Event::Stack(stack) => {
                let back = self.left.remove(&stack).unwrap_or_default();
                self.go(stack, back);
            }
            Event::Bridge(from) => {
                let caller = self.left.get(&from).and_then(|items| items.last());
                self.now.extend(caller.cloned());
            }
            Event::Enter(_) | Event::Begin(_) | Event::Leave => return false,
        }
        true
    }

    fn go(&mut self, stack: u32, items: Vec<T>) {
        let left = std::mem::replace(&mut self.now, items);
        self.left.insert(self.stack, left);
        self.stack = stack;
    }
}

/// Treatment of recursion of one function (section 4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recursion {
    /// A function that calls itself is entered again in the same context.
    Rolled,
    /// Every level is a context of its own.
    Unrolled,
}

/// From [`trace::Meta::unroll`].
impl From<bool> for Recursion {
    fn from(unroll: bool) -> Recursion {
        if unroll {
            Recursion::Unrolled
        } else {
            Recursion::Rolled
        }
    }
}

impl Recursion {
    /// Whether `callee` stays in the context of its caller.
    pub fn rolls(self, caller: Label, callee: Label) -> bool {
        self == Recursion::Rolled && caller == callee
    }
}

/// The CCT of one thread; a counter is the number of activations of its path.
pub fn build(events: &[Event], recursion: Recursion) -> Forest {
    let mut cct = Builder::default();
    let mut stack: Live<NodeId> = Live::default();
    for &event in events {
        if stack.switch(event) {
            continue;
        }
        let node = match (event, stack.last()) {
            (Event::Enter(label), Some(&caller)) => {
                if recursion.rolls(cct.label(caller), label) {
                    caller
                } else {
                    cct.child(caller, label)
                }
            }
            (Event::Enter(label) | Event::Begin(label), _) => {
                let root = cct.root(label);
                cct.mark_first(root);
                root
            }
            _ => {
                stack.pop();
                continue;
            }
        };
        cct.add(node, 1);
        stack.push(node);
    }
    cct.finish()
}

/// The whole calling context at every activation, in order.
pub fn contexts(events: &[Event], recursion: Recursion) -> Vec<Vec<Label>> {
    let mut contexts = Vec::new();
    let mut stack: Live<Vec<Label>> = Live::default();
    for &event in events {
        if stack.switch(event) {
            continue;
        }
        let context = match (event, stack.last()) {
            (Event::Begin(label), _) | (Event::Enter(label), None) => vec![label],
            (Event::Enter(label), Some(caller)) => {
                let mut context = caller.clone();
                if !caller
                    .last()
                    .is_some_and(|&last| recursion.rolls(last, label))
                {
                    context.push(label);
                }
                context
            }
            _ => {
                stack.pop();
                continue;
            }
        };
        contexts.push(context.clone());
        stack.push(context);
    }
    contexts
}
