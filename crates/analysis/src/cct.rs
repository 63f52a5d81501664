//! The calling context tree (CCT) of a list of events: listing 3.1, the slow
//! and obvious structure from which everything else can be defined.
//!
//! A run of one thread is a list of [`Event`]s. Its first event may be
//! [`Event::Begin`] with `[thread]` or `__root__`, as the engine records it, or
//! a plain [`Event::Enter`], as the paper's algorithms have it; then there is a
//! new root whenever the stack is empty.

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
    let mut stack: Vec<NodeId> = Vec::new();
    for &event in events {
        let node = match (event, stack.last()) {
            (Event::Leave, _) => {
                stack.pop();
                continue;
            }
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
        };
        cct.add(node, 1);
        stack.push(node);
    }
    cct.finish()
}

/// The whole calling context at every activation, in order.
pub fn contexts(events: &[Event], recursion: Recursion) -> Vec<Vec<Label>> {
    let mut contexts = Vec::new();
    let mut stack: Vec<Vec<Label>> = Vec::new();
    for &event in events {
        let context = match (event, stack.last()) {
            (Event::Leave, _) => {
                stack.pop();
                continue;
            }
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
        };
        contexts.push(context.clone());
        stack.push(context);
    }
    contexts
}
