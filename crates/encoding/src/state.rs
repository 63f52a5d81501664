//! Contexts: what a program has at a moment, how calls change it, and the path that it says.

use crate::graph::{Edge, Kind};
use crate::numbering::{Numbering, Step};

/// Something that was pushed, several times if it was pushed again before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number before the call.
    pub id: u64,
    pub site: u32,
    pub times: u64,
}

/// A context, without the function that it is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    pub id: u64,
    pub stack: Vec<Entry>,
}

/// A piece of a path that was decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The function that was entered, and that as which it went on, mostly the same.
    pub entered: u32,
    pub head: u32,
    /// Calls behind: their sites, and the functions that were called.
    pub calls: Vec<(u32, u32)>,
    /// The number of repetitions in a row, and the site by which it goes on to the next piece.
    pub times: u64,
    pub then: Option<u32>,
}

/// The calls of a path, with their sites; the function that the path begins at has none.
pub fn calls(pieces: &[Piece]) -> impl Iterator<Item = (Option<u32>, u32)> + '_ {
    let before = [None]
        .into_iter()
        .chain(pieces.iter().map(|piece| piece.then));
    pieces.iter().zip(before).flat_map(|(piece, before)| {
        (0..piece.times).flat_map(move |time| {
            let by = if time == 0 { before } else { piece.then };
            let own = piece.calls.iter();
            let own = own.map(|(site, callee)| (Some(*site), *callee));
            [(by, piece.head)].into_iter().chain(own)
        })
    })
}

/// A context that no path has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoContext {
    /// There is no such function, or site.
    Function(u32),
    Site(u32),
    /// No path to the function has this number.
    Id {
        function: u32,
        id: u64,
    },
    /// A path does not go on there from the site.
    Goes {
        site: u32,
        to: u32,
    },
}

/// The state of a thread, as code in the program has it.
#[derive(Clone, Debug)]
pub struct State<'n> {
    numbering: &'n Numbering,
    context: Context,
}

/// The step of a call that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    Subtract(u64),
    Pop,
}

impl<'n> State<'n> {
    /// The state in a root.
    pub fn new(numbering: &'n Numbering, root: u32) -> State<'n> {
        let id = numbering.head(root).unwrap_or(0);
        State {
            numbering,
            context: Context {
                id,
                stack: Vec::new(),
            },
        }
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Does what a call of an edge does.
    pub fn call(&mut self, edge: u32) -> Undo {
        let Edge { site, callee, .. } = self.numbering.graph.edges[edge as usize];
        match self.numbering.step(edge, self.context.id) {
            Step::Add(number) => {
                self.context.id += number;
                Undo::Subtract(number)
            }
            Step::Push => self.call_unknown(site, callee),
        }
    }

    /// Does what a call does whose callee is none of its edges'.
    pub fn call_unknown(&mut self, site: u32, callee: u32) -> Undo {
        self.context.push(site);
        self.context.id = self.numbering.head(callee).unwrap_or(0);
        Undo::Pop
    }

    /// A call is back.
    pub fn give_back(&mut self, undo: Undo) {
        match undo {
            Undo::Subtract(number) => self.context.id -= number,
            Undo::Pop => self.context.pop(),
        }
    }
}

impl Context {
    fn push(&mut self, site: u32) {
        let id = self.id;
        match self.stack.last_mut() {
            Some(last) if (last.id, last.site) == (id, site) => last.times += 1,
            _ => self.stack.push(Entry { id, site, times: 1 }),
        }
    }

    fn pop(&mut self) {
        let Some(last) = self.stack.last_mut() else {
            return;
        };
        self.id = last.id;
        last.times -= 1;
        if last.times == 0 {
            self.stack.pop();
        }
    }
}

impl Numbering {
    /// The path of a context of a function, from the root on.
    ///
    /// # Errors
    /// No path has it.
    pub fn decode(&self, context: &Context, function: u32) -> Result<Vec<Piece>, NoContext> {
        let mut pieces = vec![self.decode_piece(context.id, function)?];
        for entry in context.stack.iter().rev() {
            let site = self.graph.sites.get(entry.site as usize);
            let site = site.ok_or(NoContext::Site(entry.site))?;
            let mut piece = self.decode_piece(entry.id, site.caller)?;
            let to = pieces.last().map_or(function, |piece| piece.entered);
            // A piece that comes several times goes on to itself.
            let follows = if entry.times > 1 {
                vec![to, piece.entered]
            } else {
                vec![to]
            };
            for to in follows {
                if entry.times == 0 || !self.goes_on(entry.site, entry.id, to) {
                    let site = entry.site;
                    return Err(NoContext::Goes { site, to });
                }
            }
            piece.times = entry.times;
            piece.then = Some(entry.site);
            pieces.push(piece);
        }
        pieces.reverse();
        Ok(pieces)
    }

    /// Whether a site pushes this number and goes on to a function.
    fn goes_on(&self, site: u32, id: u64, to: u32) -> bool {
        let edges = self.graph.edges.iter().zip(0..);
        let mut pushing = edges.filter(|(edge, _)| edge.site == site && edge.callee == to);
        self.graph.sites[site as usize].kind == Kind::Open && self.head(to).is_some()
            || pushing.any(|(_, edge)| self.step(edge, id) == Step::Push)
    }

    fn decode_piece(&self, mut id: u64, function: u32) -> Result<Piece, NoContext> {
        let times = self.times.get(function as usize);
        let times = times.ok_or(NoContext::Function(function))?;
        let none = NoContext::Id { function, id };
        let time = times.iter().find(|(below, _)| id < *below);
        let (_, mut node) = *time.ok_or(none)?;
        let mut calls = Vec::new();
        loop {
            let own = &self.nodes[node as usize];
            let mut begins = own.begins.iter();
            if let Some(&(_, entered)) = begins.find(|(head, _)| *head == id) {
                calls.reverse();
                return Ok(Piece {
                    entered,
                    head: own.function,
                    calls,
                    times: 1,
                    then: None,
                });
            }
            let behind = own.calls.partition_point(|(first, ..)| *first <= id);
            let call = behind.checked_sub(1).map(|at| own.calls[at]);
            let (first, _, from, edge) = call
                .filter(|(first, len, ..)| id - first < *len)
                .ok_or(none)?;
            let Edge { site, callee, .. } = self.graph.edges[edge as usize];
            calls.push((site, callee));
            id -= first;
            node = from;
        }
    }
}
