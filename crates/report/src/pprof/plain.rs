//! A profile of stacks that are names alone, with values of any kinds: what has no recording.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::{Strings, field, proto, signed};

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame<'a> {
    pub name: &'a str,
    /// Source file and line.
    pub place: Option<(&'a str, u32)>,
}

/// The name of a measured value, and its unit.
pub type ValueType<'a> = (&'a str, &'a str);

/// Writes stacks, the outermost frame first, with a value for each type; the type `shown` is the one that is looked at first.
pub fn write<'a>(
    comment: &str,
    (types, shown): (&[ValueType<'_>], usize),
    stacks: impl Iterator<Item = (Vec<Frame<'a>>, Vec<u64>)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut strings = Strings::default();
    // The first string is the empty one.
    strings.number("");
    let mut bytes = Vec::new();
    let mut locations: HashMap<Frame<'a>, u64> = HashMap::new();
    for (path, values) in stacks {
        let mut sample = proto::Sample::default();
        for frame in path.into_iter().rev() {
            let next = locations.len() as u64 + 1;
            let id = *locations.entry(frame).or_insert(next);
            if id == next {
                put(frame, id, &mut strings, &mut bytes);
            }
            sample.location_id.push(id);
        }
        let values = values.into_iter().map(signed);
        sample.value = values.collect::<Result<_, _>>()?;
        prost::encoding::message::encode(field::SAMPLE, &sample, &mut bytes);
    }
    let mut value_type = |&(kind, unit): &ValueType<'_>| proto::ValueType {
        kind: strings.number(kind),
        unit: strings.number(unit),
    };
    let sample_type: Vec<_> = types.iter().map(&mut value_type).collect();
    let rest = proto::Rest {
        default_sample_type: sample_type[shown].kind,
        period_type: Some(sample_type[shown]),
        period: 1,
        sample_type,
        comment: vec![strings.number(comment)],
        string_table: std::mem::take(&mut strings.list),
        ..proto::Rest::default()
    };
    bytes.extend(rest.encode_to_vec());
    let mut out = GzEncoder::new(out, Compression::default());
    out.write_all(&bytes)?;
    out.finish()?;
    Ok(())
}

/// Adds a location and its function, which have the same number.
fn put(frame: Frame<'_>, id: u64, strings: &mut Strings, bytes: &mut Vec<u8>) {
    let name = strings.number(frame.name);
    let (file, line) = frame.place.unwrap_or_default();
    let function = proto::Function {
        id,
        name,
        system_name: name,
        filename: strings.number(file),
        ..proto::Function::default()
    };
    let location = proto::Location {
        id,
        line: vec![proto::Line {
            function_id: id,
            line: line.into(),
        }],
        ..proto::Location::default()
    };
    prost::encoding::message::encode(field::FUNCTION, &function, bytes);
    prost::encoding::message::encode(field::LOCATION, &location, bytes);
}
