//! The graph of a function as a picture: blocks below one another in the order of their addresses, forward
//! edges on the right, backward ones on the left, each in a lane of its own.

use std::io::{self, Write};

use flow::{EdgeKind, Function, To};

use super::{Flow, Ran};
use crate::numbers::grouped;

const LINE: usize = 15;
const GAP: usize = 22;
const LETTER: usize = 7;
const LANE: usize = 9;
const MARGIN: usize = 12;

/// Box of a block.
struct Place {
    top: usize,
    height: usize,
    lines: Vec<String>,
}

/// Edge that is drawn: its blocks, and unless it goes straight down, whether it goes back, and its lane.
struct Drawn {
    kind: EdgeKind,
    from: usize,
    to: usize,
    lane: Option<(bool, usize)>,
}

/// Writes the picture of one function. `ran` says how often a block was executed, if that is known.
pub fn write(
    flow: &Flow<'_>,
    function: &Function,
    ran: &Ran<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (places, bottom) = places(flow, function, ran);
    let lines = places.iter().flat_map(|place| &place.lines);
    let longest = lines.map(|line| line.chars().count()).max();
    let width = longest.unwrap_or(10) * LETTER + 16;
    let mut lanes = [Lanes::default(), Lanes::default()];
    let edges = drawn(function, &mut lanes);
    let left = MARGIN + (lanes[1].ends.len() + 1) * LANE;
    let right = left + width;
    let all = right + (lanes[0].ends.len() + 1) * LANE + MARGIN;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{all}\" height=\"{bottom}\" \
         font-family=\"monospace\" font-size=\"12\">\n\
         <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"{}\" font-weight=\"bold\">{}</text>",
        LINE + 4,
        escaped(&flow.name(function)),
    )?;
    for edge in &edges {
        path(edge, &places, [left, right], out)?;
    }
    for place in &places {
        let (top, height) = (place.top, place.height);
        writeln!(
            out,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" \
             fill=\"#f7f7f2\" stroke=\"#888\"/>"
        )?;
        for (at, line) in place.lines.iter().enumerate() {
            let (x, y) = (left + 8, top + LINE * (at + 1));
            let text = escaped(line);
            writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" xml:space=\"preserve\">{text}</text>"
            )?;
        }
    }
    writeln!(out, "</svg>")
}

/// Boxes of all blocks, and the bottom of the picture.
fn places(flow: &Flow<'_>, function: &Function, ran: &Ran<'_>) -> (Vec<Place>, usize) {
    let mut places = Vec::new();
    let mut top = 2 * LINE + MARGIN;
    for block in &function.graph.blocks {
        let insns = flow.insns(block).into_iter();
        let note = ran(block).map(|times| format!("{} times", grouped(times)));
        let mut lines: Vec<String> = note.into_iter().collect();
        lines.extend(insns.map(|(addr, text)| format!("{addr:x}  {text}")));
        let height = lines.len() * LINE + 8;
        places.push(Place { top, height, lines });
        top += height + GAP;
    }
    (places, top)
}

/// Edges between blocks, with their lanes.
fn drawn(function: &Function, lanes: &mut [Lanes; 2]) -> Vec<Drawn> {
    let mut all = Vec::new();
    for edge in &function.graph.edges {
        let To::Block(to) = edge.to else { continue };
        let (from, to) = (edge.from as usize, to as usize);
        let is_straight = to == from + 1 && edge.kind == EdgeKind::FallThrough;
        let lane = (!is_straight).then(|| {
            let is_back = to <= from;
            let lanes = &mut lanes[usize::from(is_back)];
            (is_back, lanes.take(from.min(to), from.max(to)))
        });
        let kind = edge.kind;
        all.push(Drawn {
            kind,
            from,
            to,
            lane,
        });
    }
    all
}

/// Draws an edge beside the blocks, which are between two verticals.
fn path(
    edge: &Drawn,
    places: &[Place],
    [left, right]: [usize; 2],
    out: &mut dyn Write,
) -> io::Result<()> {
    let color = match edge.kind {
        EdgeKind::FallThrough => "#444",
        EdgeKind::Taken => "#06c",
        EdgeKind::Case => "#080",
        _ => "#c00",
    };
    let (from, to) = (&places[edge.from], &places[edge.to]);
    let (bottom, start) = (from.top + from.height, to.top);
    let shape = match edge.lane {
        None => format!("M{} {bottom}V{start}", left + 20),
        Some((is_back, lane)) => {
            let (side, x) = match is_back {
                true => (left, left - (lane + 1) * LANE),
                false => (right, right + (lane + 1) * LANE),
            };
            format!("M{side} {}H{x}V{}H{side}", bottom - 6, start + 6)
        }
    };
    let name = edge.kind.name();
    writeln!(
        out,
        "<path d=\"{shape}\" fill=\"none\" stroke=\"{color}\" marker-end=\"url(#arrow)\">\
         <title>{name}</title></path>"
    )
}

/// Lanes beside the blocks, each with edges that do not overlap.
#[derive(Default)]
struct Lanes {
    /// Blocks that the edges of each lane go along.
    ends: Vec<Vec<(usize, usize)>>,
}

impl Lanes {
    /// A lane that is free from one block to another.
    fn take(&mut self, from: usize, to: usize) -> usize {
        let is_free = |taken: &Vec<(usize, usize)>| {
            taken.iter().all(|&(first, last)| to < first || last < from)
        };
        let lane = self.ends.iter().position(is_free);
        let lane = lane.unwrap_or_else(|| {
            self.ends.push(Vec::new());
            self.ends.len() - 1
        });
        self.ends[lane].push((from, to));
        lane
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
