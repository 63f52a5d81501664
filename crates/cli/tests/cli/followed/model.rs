//! The slow model: it keeps all iterations, and all addresses of each reference.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

/// A loop as `--list` has it.
pub struct Loop {
    pub parent: Option<usize>,
    pub header: u64,
    code: Vec<(u64, u64)>,
}

impl Loop {
    /// All loops of a nest.
    pub fn of(nest: &Value) -> Vec<Loop> {
        let loops = list(&nest["loops"]).iter().map(|one| Loop {
            parent: one["parent"].as_u64().map(|parent| parent as usize),
            header: hex(&one["header"]),
            code: list(&one["code"])
                .iter()
                .map(|range| (hex(&range[0]), hex(&range[1])))
                .collect(),
        });
        loops.collect()
    }

    pub fn has(&self, at: u64) -> bool {
        self.code
            .iter()
            .any(|(start, end)| (*start..*end).contains(&at))
    }
}

pub fn hex(value: &Value) -> u64 {
    let text = value.as_str().expect("a text").trim_start_matches("0x");
    u64::from_str_radix(text, 16).expect("a number")
}

pub fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

/// Values with the numbers of iterations at which they came, in the order in which they came.
type Samples = Vec<(Vec<i64>, i64)>;

/// Everything that the slow model knows of a nest.
#[derive(Default)]
struct Seen {
    /// By instruction, and by entry of the nest.
    accesses: BTreeMap<u64, BTreeMap<u64, Samples>>,
    /// Iterations of each entry of a loop.
    trips: BTreeMap<usize, BTreeMap<u64, Samples>>,
    entries: u64,
}

/// Follows a nest through a trace: instructions with the addresses that they access.
fn follow(nest: &[Loop], trace: &[(u64, Vec<u64>)]) -> Seen {
    let mut seen = Seen::default();
    let mut open: Vec<(usize, i64)> = Vec::new();
    let numbers =
        |open: &[(usize, i64)]| open.iter().map(|(_, number)| *number).collect::<Vec<_>>();
    for (at, accessed) in trace {
        while let Some(&(inner, number)) = open.last().filter(|(inner, _)| !nest[*inner].has(*at)) {
            open.pop();
            let trips = seen.trips.entry(inner).or_default();
            trips
                .entry(seen.entries)
                .or_default()
                .push((numbers(&open), number + 1));
        }
        let top = open.last().map(|(inner, _)| *inner);
        if let Some(top) = top.filter(|top| nest[*top].header == *at) {
            open.last_mut().expect("it is open").1 += 1;
            debug_assert!(nest[top].has(*at));
        } else if let Some(new) =
            (0..nest.len()).find(|new| nest[*new].header == *at && nest[*new].parent == top)
        {
            seen.entries += u64::from(top.is_none());
            open.push((new, 0));
        }
        if !open.is_empty() {
            for address in accessed {
                let own = seen.accesses.entry(*at).or_default();
                let own = own.entry(seen.entries).or_default();
                own.push((numbers(&open), address.cast_signed()));
            }
        }
    }
    seen
}

/// Whether values of all entries are of one form: the same coefficients, and any constant in each entry. Gives the coefficients that
/// are known.
fn affine(entries: &BTreeMap<u64, Samples>, depth: usize) -> Option<Vec<Option<i64>>> {
    let mut known = vec![None; depth];
    // Two values whose numbers differ in one place say its coefficient.
    for samples in entries.values() {
        for (at, value) in samples {
            for (other, more) in samples.iter().take(400) {
                let differs: Vec<usize> = (0..depth)
                    .filter(|place| at[*place] != other[*place])
                    .collect();
                if let [place] = differs[..] {
                    let (steps, rise) = (other[place] - at[place], more - value);
                    (rise % steps == 0).then_some(())?;
                    known[place].get_or_insert(rise / steps);
                }
            }
        }
    }
    for samples in entries.values() {
        let (first, value) = &samples[0];
        for (at, other) in samples {
            let mut sum = *value;
            for place in 0..depth {
                match known[place] {
                    Some(coefficient) => sum += coefficient * (at[place] - first[place]),
                    None if at[place] != first[place] => return None,
                    None => {}
                }
            }
            (sum == *other).then_some(())?;
        }
    }
    Some(known)
}

/// Compares a function with values that the slow model has seen; gives whether it is verified.
fn compare(function: &Value, entries: &BTreeMap<u64, Samples>, depth: usize, what: &str) -> bool {
    let count: usize = entries.values().map(Vec::len).sum();
    assert_eq!(
        function["samples"].as_u64(),
        Some(count as u64),
        "{what}: {function}"
    );
    let verified = function["verified"].as_bool().expect("a truth");
    match affine(entries, depth) {
        Some(known) => {
            let (fits, fails) = (&function["as_expected"], &function["not_as_expected"]);
            assert_eq!(
                (fails.as_u64(), function["unsolved"].as_u64()),
                (Some(0), Some(0)),
                "{what}: {function}"
            );
            assert_eq!(verified, fits.as_u64() > Some(0), "{what}");
            for (own, wanted) in list(&function["coefficients"]).iter().zip(&known) {
                assert_eq!(own.as_i64(), *wanted, "{what}: {function}");
            }
        }
        None => assert!(!verified, "{what}: {function}"),
    }
    verified
}

/// Instructions of a trace, at `bias` less, with the addresses that they access.
pub fn traced(dumped: &str, bias: u64) -> Vec<(u64, Vec<u64>)> {
    let mut trace: Vec<(u64, Vec<u64>)> = Vec::new();
    for line in dumped.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["R" | "W" | "U" | "RW", _, address] => {
                let address = u64::from_str_radix(address, 16).expect("an address");
                let last = trace.last_mut().expect("an instruction");
                last.1.retain(|own| *own != address);
                last.1.push(address);
            }
            [_, at, ..] => trace.extend(
                u64::from_str_radix(at, 16)
                    .ok()
                    .map(|at| (at - bias, Vec::new())),
            ),
            _ => {}
        }
    }
    trace
}

/// Compares all nests of a file, of which all iterations were followed, with the slow model; `None`: it is the program.
pub fn compare_all(listed: &Value, run: &Value, trace: &[(u64, Vec<u64>)], library: Option<&str>) {
    let mut nests: HashMap<&str, Vec<Loop>> = HashMap::new();
    for nest in list(&listed["nests"]) {
        let name = nest["loops"][0]["name"].as_str().expect("a name");
        nests.insert(name, Loop::of(nest));
    }
    let (mut verified, mut others, mut loops) = (0, 0, 0);
    let of_file = |nest: &&Value| nest["library"].as_str() == library;
    for nest in list(&run["nests"]).iter().filter(of_file) {
        let name = nest["loops"][0]["name"].as_str().expect("a name");
        let own = &nests[name];
        let seen = follow(own, trace);
        assert_eq!(nest["entries"].as_u64(), Some(seen.entries), "{name}");
        for (number, one) in list(&nest["loops"]).iter().enumerate() {
            let depth = one["depth"].as_u64().expect("a number") as usize;
            let trips = &seen.trips[&number];
            let all = trips.values().flatten().map(|(_, trips)| *trips as u64);
            let expected = [
                all.clone().count() as u64,
                all.clone().sum(),
                all.clone().min().unwrap(),
                all.max().unwrap(),
            ];
            let iterations = &one["iterations"];
            let found = [
                &one["entries"],
                &iterations["sum"],
                &iterations["least"],
                &iterations["most"],
            ];
            assert_eq!(
                found.map(|value| value.as_u64().expect("a number")),
                expected,
                "{name} {number}"
            );
            compare(&one["trips"], trips, depth - 1, name);
            loops += 1;
            for reference in list(&one["references"]) {
                let function = &reference["function"];
                if function.is_null() {
                    continue;
                }
                let at = hex(&reference["address"]);
                let what = format!("{name} at {at:#x}");
                match compare(function, &seen.accesses[&at], depth, &what) {
                    true => verified += 1,
                    false => others += 1,
                }
            }
        }
    }
    assert!(
        loops >= 13 && verified >= 12 && others >= 4,
        "{loops} {verified} {others}"
    );
}
