//! From witnesses to blocks.
//!
//! Approach: a state says what comes next ([`State`]); where a token is needed it is read when the state is entered, so an interruption
//! by a handler of a signal, which is told by a token that no state asks for, puts the state aside and takes it up when the handler
//! returns. Blocks are kept back until a token behind them says that control came so far.

mod points;

use placement::traced::{Arrival, Back, Block, End};
use trace::witness;

use super::frames::{Activation, Entered, Frames, State};
use super::graphs::{At, Graphs};
use super::tokens::{Piece, Tokens};
use super::told::{How, Told, Unsound};

/// Follows the witnesses of a thread.
#[derive(Debug)]
pub struct Follower<'g> {
    graphs: &'g Graphs,
    tokens: Tokens<'g>,
    state: State,
    frames: Vec<Activation>,
    /// Facts that are told; a token has proved all but the last ones.
    told: Vec<Told>,
    /// Bytes of values among the proved ones.
    bytes: Vec<u8>,
    proved: usize,
    given: usize,
    /// Control is in code that is not edited, and that was told.
    is_gone: bool,
    over: bool,
}

/// A token is missing: the stream ends there.
struct Over;

type Step = Result<(), Option<Over>>;

impl<'g> Follower<'g> {
    pub fn new(graphs: &'g Graphs, pieces: &'g [Piece<'g>], frames: Frames) -> Follower<'g> {
        Follower {
            graphs,
            tokens: Tokens::new(pieces),
            state: State::Elsewhere,
            frames: frames.activations,
            told: Vec::new(),
            bytes: Vec::new(),
            proved: 0,
            given: 0,
            is_gone: true,
            over: false,
        }
    }

    /// Bytes of values, if that is what was told last.
    pub fn values_of(&self, told: &Told) -> &[u8] {
        let Told::Values { from, len } = *told else {
            return &[];
        };
        let own = self.bytes.get(from as usize..).unwrap_or_default();
        own.get(..len.into()).unwrap_or_default()
    }

    /// Bytes that were read.
    pub fn position(&self) -> u64 {
        self.tokens.position
    }

    /// The next thing told.
    pub fn next(&mut self) -> Option<Result<Told, Unsound>> {
        loop {
            if self.given < self.proved {
                self.given += 1;
                return Some(Ok(self.told[self.given - 1].clone()));
            }
            if self.over {
                return None;
            }
            self.told.drain(..self.proved);
            self.bytes.clear();
            (self.proved, self.given) = (0, 0);
            match self.step() {
                Ok(()) => {}
                Err(Some(Over)) => self.over = true,
                Err(None) => {
                    self.over = true;
                    return Some(Err(self.unsound()));
                }
            }
        }
    }

    /// Says where the stream contradicts the plan.
    pub fn unsound(&mut self) -> Unsound {
        let block = self.here().map(|at| self.graphs.link_addr(at));
        Unsound {
            at: self.tokens.position,
            token: self.tokens.peek(),
            block: block.unwrap_or(0),
        }
    }

    fn here(&self) -> Option<At> {
        match self.state {
            State::Before(at)
            | State::Inside(at)
            | State::Arriving(at)
            | State::Ending(at)
            | State::Behind(at)
            | State::Jumped(at) => Some(at),
            State::Elsewhere => None,
        }
    }

    fn prove(&mut self) {
        self.proved = self.told.len();
    }

    /// The first byte of the token that comes next.
    fn peek(&mut self) -> Result<u8, Option<Over>> {
        loop {
            match self.tokens.peek() {
                0 if self.tokens.is_damaged => return Err(None),
                0 => return Err(Some(Over)),
                witness::VALUES => self.values()?,
                first => return Ok(first),
            }
        }
    }

    /// Reads values, which blocks have that are not proved yet.
    fn values(&mut self) -> Step {
        let [len] = self.tokens.take().ok_or(Some(Over))?;
        let from = self.bytes.len();
        self.bytes.resize(from + usize::from(len), 0);
        self.tokens
            .fill(&mut self.bytes[from..])
            .ok_or(Some(Over))?;
        let from = u32::try_from(from).map_err(|_| None)?;
        self.told.insert(self.proved, Told::Values { from, len });
        self.proved += 1;
        Ok(())
    }

    /// Expects a token of one byte.
    fn expect(&mut self, token: u8) -> Step {
        match self.peek()? {
            first if first == token => {
                self.tokens.skip();
                self.prove();
                Ok(())
            }
            _ => Err(None),
        }
    }

    fn address(&mut self) -> Result<u32, Option<Over>> {
        let bytes = self.tokens.take().ok_or(Some(Over))?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// The entry of a function that was entered.
    fn entry(&mut self) -> Result<At, Option<Over>> {
        let number = match self.peek()? {
            witness::ENTER => {
                let bytes = self.tokens.take().ok_or(Some(Over))?;
                u16::from_le_bytes(bytes).into()
            }
            _ => self.address()?,
        };
        self.graphs.numbers.get(&number).copied().ok_or(None)
    }

    /// Whether a handler begins here, or one in code that is not edited left for another activation, if a token is needed.
    fn is_interrupted(&mut self, at: At) -> Result<bool, Option<Over>> {
        match self.peek()? {
            witness::ENTER | witness::ENTER_FAR => {}
            witness::POINT | witness::PAD if !self.awaits_pad(at) => {
                self.told.push(Told::Left(Some(at)));
                self.is_gone = true;
                self.state = State::Elsewhere;
                return Ok(true);
            }
            _ => return Ok(false),
        }
        let entry = self.entry()?;
        let state = std::mem::replace(&mut self.state, State::Before(entry));
        self.came(entry, How::Interrupts(at));
        self.prove();
        self.enter(entry, Entered::ByInterrupt(Box::new(state)));
        Ok(true)
    }

    /// Whether the token of a landing pad comes next, to which control came by a branch.
    fn awaits_pad(&self, at: At) -> bool {
        matches!(self.state, State::Arriving(_)) && self.graphs.block(at).arrival == Arrival::Pad
    }

    fn enter(&mut self, entry: At, entered: Entered) {
        self.frames.push(Activation {
            function: entry.function,
            entered,
            site: 0,
            is_outside: false,
            points: Vec::new(),
        });
        self.state = State::Before(entry);
    }

    /// Goes one state on.
    fn step(&mut self) -> Step {
        match self.state {
            State::Elsewhere => self.elsewhere(),
            State::Before(at) => {
                let block = self.graphs.block(at);
                match block.stops {
                    false => self.state = State::Inside(at),
                    true if block.tells && self.is_interrupted(at)? => {}
                    true => {
                        if block.tells {
                            self.expect(1)?;
                        }
                        self.state = State::Arriving(at);
                    }
                }
                Ok(())
            }
            State::Arriving(at) => {
                let block = self.graphs.block(at);
                if block.arrival == Arrival::Silent || !self.is_interrupted(at)? {
                    self.arrive(at)?;
                }
                Ok(())
            }
            State::Inside(at) => self.walk(at),
            State::Ending(at) => {
                let block = self.graphs.block(at);
                let token = match block.end {
                    _ if block.is_out => Some(witness::OUT),
                    End::Return { tells: true } => Some(witness::LEAVE),
                    _ => None,
                };
                if let Some(token) = token {
                    if self.is_interrupted(at)? {
                        return Ok(());
                    }
                    self.told.push(Told::Executed(at));
                    self.expect(token)?;
                } else if block.end != End::Table {
                    self.told.push(Told::Executed(at));
                }
                self.state = State::Behind(at);
                Ok(())
            }
            State::Behind(at) => self.leave(at),
            State::Jumped(at) => self.jump(at),
        }
    }

    /// The token of a block that control came to, if it has one.
    fn arrive(&mut self, at: At) -> Step {
        let block = self.graphs.block(at);
        match block.arrival {
            Arrival::Silent => {}
            Arrival::Number(number) => self.expect(number + 1)?,
            Arrival::Address | Arrival::Pad => {
                let kind = match block.arrival {
                    Arrival::Pad => witness::PAD,
                    _ => witness::WENT,
                };
                if self.peek()? != kind || self.address()? != self.graphs.token_of(at, block.start)
                {
                    return Err(None);
                }
                self.prove();
            }
        }
        self.arrived(at);
        Ok(())
    }

    fn arrived(&mut self, at: At) {
        self.state = match self.graphs.block(at).end {
            End::Ways => State::Inside(at),
            _ => State::Ending(at),
        };
    }

    /// Goes along a path, to where it stops.
    fn walk(&mut self, start: At) -> Step {
        let function = self.graphs.function(start);
        let mut sum = 0;
        let is_told = function.blocks[start.block as usize].paths > 1;
        if is_told {
            if self.is_interrupted(start)? {
                return Ok(());
            }
            let token = self.peek()?;
            if u32::from(token) > witness::PATHS {
                return Err(None);
            }
            sum = u32::from(token) - 1;
        }
        let mut at = start;
        loop {
            let block = &function.blocks[at.block as usize];
            self.told.push(Told::Executed(at));
            let fits = block.ways.iter().filter(|(_, increment)| *increment <= sum);
            let way = fits.max_by_key(|(_, increment)| *increment);
            let &(to, increment) = way.ok_or(None)?;
            sum -= increment;
            // A plan that somebody made up may have a circle.
            if self.told.len() > function.blocks.len() + self.proved + MOST_UNPROVED {
                return Err(None);
            }
            at.block = to;
            if function.blocks[to as usize].stops {
                break;
            }
        }
        if sum > 0 {
            return Err(None);
        }
        if is_told {
            self.tokens.skip();
            self.prove();
            self.state = State::Arriving(at);
        } else {
            self.state = State::Before(at);
        }
        Ok(())
    }

    /// Goes to what follows a block that has been executed.
    fn leave(&mut self, at: At) -> Step {
        match self.graphs.block(at).end {
            End::Ways => return Err(None),
            End::Call {
                target: None,
                back: Back::Nothing,
                next: Some(next),
                ..
            } => {
                let to = At { block: next, ..at };
                self.told.push(Told::Left(None));
                self.came(to, How::FromElsewhere);
                self.state = State::Before(to);
            }
            End::Call { target, back, .. } => {
                let own = self.frames.last_mut().ok_or(None)?;
                own.site = at.block;
                own.is_outside = back != Back::Nothing || target.is_none();
                match target.and_then(|target| self.graphs.entries.get(&target)) {
                    Some(&entry) => self.enter(entry, Entered::ByCall),
                    None => self.outside(),
                }
            }
            End::Return { .. } => return self.give_back(),
            End::Tail { target } => {
                match target.and_then(|target| self.graphs.entries.get(&target)) {
                    Some(&entry) => {
                        let own = self.frames.last_mut().ok_or(None)?;
                        own.function = entry.function;
                        own.points.clear();
                        self.state = State::Before(entry);
                    }
                    None => {
                        // The code there returns to the caller.
                        self.frames.pop().ok_or(None)?;
                        self.outside();
                    }
                }
            }
            End::Table => self.state = State::Jumped(at),
            End::Nothing => self.outside(),
        }
        // A recursion without a branch has no token.
        match self.frames.len() > MOST_FRAMES || self.told.len() - self.proved > MOST_UNPROVED {
            true => Err(None),
            false => Ok(()),
        }
    }

    fn outside(&mut self) {
        self.told.push(Told::Left(None));
        self.is_gone = true;
        self.state = State::Elsewhere;
    }

    /// A function returns.
    fn give_back(&mut self) -> Step {
        let own = self.frames.pop().ok_or(None)?;
        match own.entered {
            Entered::FromElsewhere => self.outside(),
            Entered::ByInterrupt(state) => {
                self.told.push(Told::Left(None));
                let to = match *state {
                    State::Before(at)
                    | State::Inside(at)
                    | State::Arriving(at)
                    | State::Ending(at)
                    | State::Jumped(at) => at,
                    State::Elsewhere | State::Behind(_) => return Err(None),
                };
                self.came(to, How::Back);
                self.state = *state;
            }
            Entered::ByCall => {
                let caller = self.frames.last().ok_or(None)?;
                let site = At {
                    function: caller.function,
                    block: caller.site,
                };
                let End::Call { back, next, .. } = self.graphs.block(site).end else {
                    return Err(None);
                };
                match back {
                    Back::Nothing => {
                        let block = next.ok_or(None)?;
                        self.state = State::Before(At { block, ..site });
                    }
                    Back::Site | Back::Point => self.state = State::Elsewhere,
                }
            }
        }
        Ok(())
    }

    /// A token in code that is not edited says where control comes from it.
    fn elsewhere(&mut self) -> Step {
        match self.peek()? {
            witness::ENTER | witness::ENTER_FAR => {
                let entry = self.entry()?;
                self.come(entry, How::Enters);
                self.enter(entry, Entered::FromElsewhere);
                Ok(())
            }
            witness::PAD => {
                let addr = self.address()?;
                let pad = *self.graphs.pads.get(&addr).ok_or(None)?;
                let catches = |own: &Activation| {
                    let site = At {
                        function: own.function,
                        block: own.site,
                    };
                    let end = &self.graphs.block(site).end;
                    own.function == pad.function
                        && matches!(end, End::Call { pad: Some(block), .. } if *block == pad.block)
                };
                let frame = self.frames.iter().rposition(catches).ok_or(None)?;
                self.frames.truncate(frame + 1);
                self.come(pad, How::Pad);
                self.arrived(pad);
                Ok(())
            }
            witness::POINT => self.point(),
            token => {
                let caller = self.frames.last().filter(|caller| caller.is_outside);
                let caller = caller.ok_or(None)?;
                let site = At {
                    function: caller.function,
                    block: caller.site,
                };
                let block = self.graphs.block(site);
                let behind = block.start.wrapping_add(block.len.into());
                match block.end {
                    End::Call {
                        back: Back::Site,
                        next: Some(next),
                        ..
                    } if token == witness::back(self.graphs.token_of(site, behind)) => {
                        self.tokens.skip();
                        let to = At {
                            block: next,
                            ..site
                        };
                        self.return_to(to, How::FromElsewhere);
                        Ok(())
                    }
                    _ => Err(None),
                }
            }
        }
    }

    fn came(&mut self, to: At, how: How) {
        let depth = self.frames.len() as u32;
        self.told.push(Told::Came { to, how, depth });
    }

    fn come(&mut self, to: At, how: How) {
        self.came(to, how);
        self.is_gone = false;
        self.prove();
    }

    /// A call has come back, from its callee or from code that is not edited.
    fn return_to(&mut self, to: At, how: How) {
        match self.is_gone {
            true => self.come(to, how),
            false => self.prove(),
        }
        if let Some(own) = self.frames.last_mut() {
            own.is_outside = false;
        }
        self.state = State::Before(to);
    }

    /// Reads where a jump by a table went.
    fn jump(&mut self, from: At) -> Step {
        if self.is_interrupted(from)? {
            return Ok(());
        }
        let function = self.graphs.function(from);
        let first = self.peek()?;
        let found = match first {
            witness::WENT => {
                let addr = self.address()?;
                function
                    .blocks
                    .iter()
                    .position(|block| self.graphs.token_of(from, block.start) == addr)
            }
            token => {
                self.tokens.skip();
                let is_it = |block: &Block| matches!(block.arrival, Arrival::Number(number) if number + 1 == token);
                function.blocks.iter().position(is_it)
            }
        };
        let block = found.ok_or(None)? as u32;
        self.told.push(Told::Executed(from));
        self.prove();
        self.arrived(At { block, ..from });
        Ok(())
    }
}

/// Most blocks, and calls, between two tokens; programs that were edited have fewer.
const MOST_UNPROVED: usize = 1 << 20;
const MOST_FRAMES: usize = 1 << 24;
