//! A validator for the part of JSON Schema that docs/formats uses: `type`,
//! `const`, `enum`, `properties`, `required`, `additionalProperties`, `items`,
//! `prefixItems`, `minItems`, `maxItems`, `pattern` (hexadecimal only),
//! `minimum`, `oneOf`, `$ref` into `$defs`. An unknown keyword is a panic, so
//! that the schema cannot ask for what is not checked.

use serde_json::Value;

/// Places in `document` that `schema` does not allow, with the reason.
pub fn faults(schema: &Value, document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, document, "$", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else {
        return;
    };
    for (keyword, want) in keywords {
        let ok = match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" | "additionalProperties" => true,
            "type" => has_type(want, value),
            "const" => want == value,
            "enum" => want.as_array().unwrap().contains(value),
            "minimum" => value
                .as_f64()
                .is_none_or(|number| number >= want.as_f64().unwrap()),
            "minItems" => length(value).is_none_or(|n| n >= want.as_u64().unwrap()),
            "maxItems" => length(value).is_none_or(|n| n <= want.as_u64().unwrap()),
            "pattern" => matches_pattern(want.as_str().unwrap(), value),
            "required" => {
                let missing = |name: &&Value| value.get(name.as_str().unwrap()).is_none();
                !value.is_object() || !want.as_array().unwrap().iter().any(|name| missing(&name))
            }
            "$ref" => {
                let name = want.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                check(root, &root["$defs"][name], value, place, found);
                true
            }
            "oneOf" => {
                let fits = |option: &&Value| {
                    let mut faults = Vec::new();
                    check(root, option, value, place, &mut faults);
                    faults.is_empty()
                };
                want.as_array().unwrap().iter().filter(fits).count() == 1
            }
            "properties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    let place = format!("{place}.{name}");
                    match (want.get(name), schema.get("additionalProperties")) {
                        (Some(schema), _) => check(root, schema, inner, &place, found),
                        (None, Some(Value::Bool(false))) => found.push(format!("{place}: unknown")),
                        (None, _) => {}
                    }
                }
                true
            }
            "prefixItems" => {
                let pairs = want
                    .as_array()
                    .unwrap()
                    .iter()
                    .zip(value.as_array().into_iter().flatten());
                pairs.for_each(|(schema, inner)| check(root, schema, inner, place, found));
                true
            }
            "items" => {
                for (at, inner) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, want, inner, &format!("{place}[{at}]"), found);
                }
                true
            }
            other => panic!("the validator does not know `{other}`"),
        };
        if !ok {
            found.push(format!("{place}: {keyword} {want}, but it is {value}"));
        }
    }
    if !keywords.contains_key("properties")
        && let Some(inner) = keywords
            .get("additionalProperties")
            .filter(|inner| inner.is_object())
    {
        for (name, value) in value.as_object().into_iter().flatten() {
            check(root, inner, value, &format!("{place}.{name}"), found);
        }
    }
}

fn length(value: &Value) -> Option<u64> {
    value.as_array().map(|items| items.len() as u64)
}

fn has_type(want: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("no type {other}"),
    };
    match want {
        Value::Array(names) => names.iter().any(|name| is(name.as_str().unwrap())),
        name => is(name.as_str().unwrap()),
    }
}

fn matches_pattern(pattern: &str, value: &Value) -> bool {
    let Some(text) = value.as_str() else {
        return true;
    };
    let digits = match pattern {
        "^0x[0-9a-f]+$" => text.strip_prefix("0x").unwrap_or("!"),
        "^([0-9a-f]{2})*$" if text.len().is_multiple_of(2) => return text.chars().all(hex),
        other => panic!("the validator does not know the pattern {other}"),
    };
    !digits.is_empty() && digits.chars().all(hex)
}

fn hex(c: char) -> bool {
    matches!(c, '0'..='9' | 'a'..='f')
}
