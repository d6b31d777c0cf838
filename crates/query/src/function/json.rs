//! JSON: the functions of `json` and `jsonb`, and those that their operators are, as `PostgreSQL` has them.
//!
//! Does: say what each takes and answers, and give it its rows. A value is text that is some JSON; its field says which of the
//! types it is (`SQL_TYPE`). Does not: know operators (`semantics::json` plans them) or aggregates (`statement::rewrite` makes
//! them of arrays).

mod make;
mod operators;
mod order;
mod part;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Int32Builder, ListBuilder, StringArray, StringBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use nilometer_engine::{Json, LogicalType, SQL_TYPE};

pub(crate) use operators::JsonOperators;
use part::Key;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Call {
    /// Text as JSON.
    Read,
    /// `->`, `->>`: the value of a key, or at a place.
    Part,
    PartText,
    /// `#>`, `#>>`: the same along a path.
    Path,
    PathText,
    /// The path as arguments.
    Extract,
    ExtractText,
    /// `@>`.
    Contains,
    /// `?`, `?|`, `?&`.
    Exists,
    ExistsAny,
    ExistsAll,
    TypeOf,
    ArrayLength,
    /// A value of any type as JSON.
    Make,
    MakeObject,
    MakeArray,
    /// Of an array of JSON, as aggregates make it.
    OfArray,
    /// Of an array of keys and one of JSON.
    OfPairs,
    /// `||`.
    Concat,
    /// `-`.
    Delete,
    StripNulls,
    Elements,
    ElementsText,
    Keys,
    /// Bytes that sort as values do.
    OrderKey,
    /// The form of all equal values.
    Even,
}

/// What a call answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Json,
    Text,
    Truth,
    Number,
    Texts,
    Jsons,
    Bytes,
}

impl Call {
    fn answer(self) -> Answer {
        match self {
            Self::PartText | Self::PathText | Self::ExtractText | Self::TypeOf => Answer::Text,
            Self::Contains | Self::Exists | Self::ExistsAny | Self::ExistsAll => Answer::Truth,
            Self::ArrayLength => Answer::Number,
            Self::ElementsText | Self::Keys => Answer::Texts,
            Self::Elements => Answer::Jsons,
            Self::OrderKey => Answer::Bytes,
            _ => Answer::Json,
        }
    }

    /// How many arguments it takes; `None` = any number.
    fn arguments(self) -> Option<usize> {
        match self {
            Self::MakeObject | Self::MakeArray | Self::Extract | Self::ExtractText => None,
            Self::Part
            | Self::PartText
            | Self::Path
            | Self::PathText
            | Self::Contains
            | Self::Exists
            | Self::ExistsAny
            | Self::ExistsAll
            | Self::OfPairs
            | Self::Concat
            | Self::Delete => Some(2),
            _ => Some(1),
        }
    }
}

/// Calls that operators, casts and aggregates are, behind `__json` and `__jsonb`: no names for statements.
const INNER: [(&str, Call); 9] = [
    ("", Call::Read),
    ("_part", Call::Part),
    ("_part_text", Call::PartText),
    ("_path", Call::Path),
    ("_path_text", Call::PathText),
    ("_of_array", Call::OfArray),
    ("_of_pairs", Call::OfPairs),
    ("_order_key", Call::OrderKey),
    ("_even", Call::Even),
];

/// Functions by their names behind `json` and `jsonb`.
const OF_BOTH: [(&str, Call); 10] = [
    ("_extract_path", Call::Extract),
    ("_extract_path_text", Call::ExtractText),
    ("_typeof", Call::TypeOf),
    ("_array_length", Call::ArrayLength),
    ("_build_object", Call::MakeObject),
    ("_build_array", Call::MakeArray),
    ("_strip_nulls", Call::StripNulls),
    ("_array_elements", Call::Elements),
    ("_array_elements_text", Call::ElementsText),
    ("_object_keys", Call::Keys),
];

/// The same of `jsonb` only.
const OF_JSONB: [(&str, Call); 6] = [
    ("_concat", Call::Concat),
    ("_contains", Call::Contains),
    ("_delete", Call::Delete),
    ("_exists", Call::Exists),
    ("_exists_all", Call::ExistsAll),
    ("_exists_any", Call::ExistsAny),
];

/// The functions of both types.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let json = OF_BOTH.iter();
    let jsonb = OF_BOTH.iter().chain(&OF_JSONB);
    let json = json.map(|(name, call)| (format!("json{name}"), *call, LogicalType::Json));
    let jsonb = jsonb.map(|(name, call)| (format!("jsonb{name}"), *call, LogicalType::Jsonb));
    let made = [
        ("to_json".to_owned(), Call::Make, LogicalType::Json),
        ("to_jsonb".to_owned(), Call::Make, LogicalType::Jsonb),
    ];
    let inner = INNER.iter().flat_map(|(name, call)| {
        [
            (format!("__json{name}"), *call, LogicalType::Json),
            (format!("__jsonb{name}"), *call, LogicalType::Jsonb),
        ]
    });
    json.chain(jsonb)
        .chain(made)
        .chain(inner)
        .map(|(name, call, of)| {
            Arc::new(ScalarUDF::new_from_impl(JsonFunction::new(name, call, of)))
        })
        .collect()
}

/// What a function of a name does, if it is one of these.
fn call_of(name: &str) -> Option<Call> {
    let find = |calls: &[(&str, Call)], rest: &str| {
        let found = calls.iter().find(|(name, _)| *name == rest);
        found.map(|(_, call)| *call)
    };
    if let "to_json" | "to_jsonb" = name {
        return Some(Call::Make);
    }
    if let Some(rest) = name.strip_prefix("__json") {
        return find(&INNER, rest.strip_prefix('b').unwrap_or(rest));
    }
    let rest = name.strip_prefix("json")?;
    match rest.strip_prefix('b') {
        Some(rest) => find(&OF_BOTH, rest).or_else(|| find(&OF_JSONB, rest)),
        None => find(&OF_BOTH, rest),
    }
}

/// Whether a function of this name is one of these. What they make is as long as what they are given.
pub(super) fn is_of_json(name: &str) -> bool {
    call_of(name).is_some()
}

/// The names of functions that answer JSON, for who has to know without asking for types.
fn answers_json(name: &str) -> bool {
    call_of(name).is_some_and(|call| call.answer() == Answer::Json)
}

/// The function of this name.
pub(crate) fn json_named(name: &str) -> Option<Arc<ScalarUDF>> {
    functions().into_iter().find(|it| it.name() == name)
}

/// Whether a field holds `jsonb`.
pub(crate) fn is_jsonb(field: &Field) -> bool {
    field
        .metadata()
        .get(SQL_TYPE)
        .is_some_and(|of| of == "jsonb")
}

/// Whether a field holds JSON.
pub(crate) fn is_json(field: &Field) -> bool {
    let of = field.metadata().get(SQL_TYPE).map(String::as_str);
    matches!(of, Some("json" | "jsonb"))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonFunction {
    name: String,
    call: Call,
    /// Which of the types it answers.
    of: LogicalType,
    signature: Signature,
}

impl JsonFunction {
    fn new(name: String, call: Call, of: LogicalType) -> Self {
        let signature = match call.arguments() {
            Some(count) => Signature::any(count, Volatility::Immutable),
            None => Signature::one_of(
                vec![TypeSignature::VariadicAny, TypeSignature::Nullary],
                Volatility::Immutable,
            ),
        };
        Self {
            name,
            call,
            of,
            signature,
        }
    }

    fn of_json(&self, name: &str) -> Field {
        let said = HashMap::from([(SQL_TYPE.to_owned(), self.of.to_string())]);
        Field::new(name, DataType::Utf8, true).with_metadata(said)
    }

    fn kind(&self) -> DataType {
        match self.call.answer() {
            Answer::Json | Answer::Text => DataType::Utf8,
            Answer::Truth => DataType::Boolean,
            Answer::Number => DataType::Int32,
            Answer::Bytes => DataType::Binary,
            Answer::Texts => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
            Answer::Jsons => DataType::List(Arc::new(self.of_json(Field::LIST_FIELD_DEFAULT_NAME))),
        }
    }

    #[expect(clippy::too_many_lines, reason = "a flat list of calls")]
    fn row(&self, row: usize, arguments: &[Argument]) -> Result<Option<Found>> {
        let [first, rest @ ..] = arguments else {
            return exec_err!("{} takes a value", self.name);
        };
        let json = || first.json(row);
        let found = match self.call {
            Call::Read => {
                let Some(text) = first.text(row) else {
                    return Ok(None);
                };
                return Ok(Some(Found::Read(self.read(text)?)));
            }
            Call::Part | Call::PartText => {
                let (Some(json), Some(key)) = (json()?, rest.first().and_then(|it| it.key(row)))
                else {
                    return Ok(None);
                };
                match (&json, &key) {
                    // A value that stands by itself is kept as an array of one, which shows here.
                    (Json::Word(_) | Json::Text(_), Key::Place(0 | -1))
                        if self.of == LogicalType::Jsonb =>
                    {
                        Some(json)
                    }
                    _ => part::part(&json, &key).cloned(),
                }
            }
            Call::Path | Call::PathText => {
                let (Some(json), Some(path)) = (json()?, rest.first().and_then(|it| it.path(row)))
                else {
                    return Ok(None);
                };
                part::along(&json, &path?).cloned()
            }
            Call::Extract | Call::ExtractText => {
                let path: Option<Vec<String>> = rest
                    .iter()
                    .map(|it| it.text(row).map(str::to_owned))
                    .collect();
                let (Some(json), Some(path)) = (json()?, path) else {
                    return Ok(None);
                };
                part::along(&json, &path).cloned()
            }
            Call::Contains => {
                let second = rest.first().map_or(Ok(None), |it| it.json(row))?;
                let (Some(json), Some(second)) = (json()?, second) else {
                    return Ok(None);
                };
                return Ok(Some(Found::Truth(part::contains(&json, &second))));
            }
            Call::Exists => {
                let (Some(json), Some(key)) = (json()?, rest.first().and_then(|it| it.text(row)))
                else {
                    return Ok(None);
                };
                return Ok(Some(Found::Truth(part::exists(&json, key))));
            }
            Call::ExistsAny | Call::ExistsAll => {
                let keys = rest.first().and_then(|it| it.names(row)).transpose()?;
                let (Some(json), Some(keys)) = (json()?, keys) else {
                    return Ok(None);
                };
                // A NULL among the keys is passed over.
                let mut found = keys.iter().flatten().map(|key| part::exists(&json, key));
                return Ok(Some(Found::Truth(if self.call == Call::ExistsAny {
                    found.any(|it| it)
                } else {
                    found.all(|it| it)
                })));
            }
            Call::TypeOf => {
                return Ok(json()?.map(|json| Found::Text(part::type_of(&json).to_owned())));
            }
            Call::ArrayLength => {
                let Some(json) = json()? else {
                    return Ok(None);
                };
                return Ok(Some(Found::Number(part::length(&json)?)));
            }
            Call::Elements | Call::ElementsText | Call::Keys => {
                let Some(json) = json()? else {
                    return Ok(None);
                };
                let of = match self.call {
                    Call::Elements => part::elements(&json)?,
                    Call::ElementsText => part::element_texts(&json)?,
                    _ => part::keys(&json)?,
                };
                return Ok(Some(Found::Texts(of)));
            }
            Call::Make => match first.value(row)? {
                // NULL is no JSON by itself.
                None => return Ok(None),
                value => value,
            },
            Call::MakeObject => Some(make::object(&self.name, row, arguments)?),
            Call::MakeArray => {
                let values = arguments.iter().map(|it| make::value_or_null(it, row));
                Some(Json::Array(values.collect::<Result<_>>()?))
            }
            Call::OfArray => first.elements(row)?.map(Json::Array),
            Call::OfPairs => make::pairs(first, rest.first(), row)?,
            Call::Concat => {
                let second = rest.first().map_or(Ok(None), |it| it.json(row))?;
                let (Some(json), Some(second)) = (json()?, second) else {
                    return Ok(None);
                };
                Some(make::concat(json, second))
            }
            Call::Delete => {
                let second = rest.first();
                let (Some(json), Some(keys)) = (json()?, second.and_then(|it| it.keys(row))) else {
                    return Ok(None);
                };
                let without = |json, key| make::without(json, &key);
                Some(keys?.into_iter().try_fold(json, without)?)
            }
            Call::StripNulls => json()?.map(make::without_nulls),
            // Of whole columns.
            Call::OrderKey | Call::Even => None,
        };
        Ok(match self.call.answer() {
            Answer::Text => found.and_then(|json| part::text_of(&json)).map(Found::Text),
            _ => found.map(|json| Found::Text(json.to_string())),
        })
    }

    /// A text as this type keeps it.
    fn read(&self, text: &str) -> Result<String> {
        let json = Json::parse(text);
        let json = json.map_err(|_| {
            let of = self.of;
            exec_datafusion_err!("invalid input syntax for type {of}: \"{}\"", short(text))
        })?;
        Ok(match self.of {
            LogicalType::Jsonb => json.to_string(),
            _ => text.to_owned(),
        })
    }
}

/// The beginning of a text, for an error.
fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

/// What a call has found for a row.
enum Found {
    Text(String),
    Read(String),
    Truth(bool),
    Number(i32),
    Texts(Vec<Option<String>>),
}

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.kind())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if self.call == Call::MakeObject && args.arg_fields.len() % 2 == 1 {
            return plan_err!("argument list must have even number of elements");
        }
        Ok(Arc::new(match self.call.answer() {
            Answer::Json => self.of_json(&self.name),
            _ => Field::new(&self.name, self.kind(), true),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args
            .args
            .iter()
            .all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let with_fields = args.args.iter().zip(&args.arg_fields);
        let arguments = with_fields
            .map(|(value, field)| Argument::new(&value.to_array(rows)?, field))
            .collect::<Result<Vec<_>>>()?;
        if let (Call::OrderKey | Call::Even, [value]) = (self.call, args.args.as_slice()) {
            let values = value.to_array(rows)?;
            let made = if self.call == Call::Even {
                order::evened(&values)?
            } else {
                order::keys(&values)?
            };
            return Ok(if is_scalar {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?)
            } else {
                ColumnarValue::Array(made)
            });
        }
        // Without an argument there is an empty array or object.
        let found = (0..rows).map(|row| match (arguments.is_empty(), self.call) {
            (true, Call::MakeArray) => Ok(Some(Found::Text("[]".to_owned()))),
            (true, Call::MakeObject) => Ok(Some(Found::Text("{}".to_owned()))),
            _ => self.row(row, &arguments),
        });
        let array = self.array(found)?;
        Ok(match array.as_list_opt::<i32>() {
            _ if !is_scalar => ColumnarValue::Array(array),
            // As it is: what is made of a row of it forgets the type of its elements.
            Some(list) => ColumnarValue::Scalar(ScalarValue::List(Arc::new(list.clone()))),
            None => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
        })
    }
}

impl JsonFunction {
    fn array(&self, found: impl Iterator<Item = Result<Option<Found>>>) -> Result<ArrayRef> {
        let (mut texts, mut truths) = (StringBuilder::new(), BooleanBuilder::new());
        let mut numbers = Int32Builder::new();
        let item = match self.kind() {
            DataType::List(item) => item,
            _ => Arc::new(Field::new_list_field(DataType::Utf8, true)),
        };
        let mut lists = ListBuilder::new(StringBuilder::new()).with_field(item);
        let answer = self.call.answer();
        for row in found {
            match (answer, row?) {
                (Answer::Json | Answer::Text, Some(Found::Text(text) | Found::Read(text))) => {
                    texts.append_value(text);
                }
                (Answer::Json | Answer::Text, _) => texts.append_null(),
                (Answer::Truth, Some(Found::Truth(truth))) => truths.append_value(truth),
                (Answer::Truth, _) => truths.append_null(),
                (Answer::Number, Some(Found::Number(number))) => numbers.append_value(number),
                (Answer::Number, _) => numbers.append_null(),
                (Answer::Texts | Answer::Jsons, Some(Found::Texts(all))) => {
                    for text in all {
                        lists.values().append_option(text);
                    }
                    lists.append(true);
                }
                (Answer::Texts | Answer::Jsons, _) => lists.append_null(),
                (Answer::Bytes, _) => {}
            }
        }
        Ok(match answer {
            Answer::Json | Answer::Text => Arc::new(texts.finish()),
            Answer::Bytes => arrow::array::new_empty_array(&DataType::Binary),
            Answer::Truth => Arc::new(truths.finish()),
            Answer::Number => Arc::new(numbers.finish()),
            Answer::Texts | Answer::Jsons => Arc::new(lists.finish()),
        })
    }
}

/// An argument's values, in the forms in which calls ask for them.
struct Argument {
    array: ArrayRef,
    field: FieldRef,
    /// Where it is text.
    texts: Option<StringArray>,
    /// Where it is a whole number.
    numbers: Option<arrow::array::Int64Array>,
}

impl Argument {
    fn new(array: &ArrayRef, field: &FieldRef) -> Result<Self> {
        let kind = match array.data_type() {
            DataType::Dictionary(_, value) => value.as_ref(),
            kind => kind,
        };
        let is_text = kind.is_string() || *kind == DataType::Null;
        let plain = if is_text {
            cast(array, &DataType::Utf8)?
        } else {
            cast(array, kind)?
        };
        let numbers = kind
            .is_integer()
            .then(|| cast(&plain, &DataType::Int64))
            .transpose()?;
        Ok(Self {
            texts: is_text.then(|| plain.as_string::<i32>().clone()),
            numbers: numbers.map(|it| it.as_primitive().clone()),
            array: plain,
            field: Arc::clone(field),
        })
    }

    fn text(&self, row: usize) -> Option<&str> {
        let texts = self.texts.as_ref()?;
        texts.is_valid(row).then(|| texts.value(row))
    }

    /// The JSON that a text is.
    fn json(&self, row: usize) -> Result<Option<Json>> {
        let Some(text) = self.text(row) else {
            if self.texts.is_none() {
                return exec_err!("{} is no JSON; write to_jsonb(...)", self.array.data_type());
            }
            return Ok(None);
        };
        let json = Json::parse(text);
        let json = json.map_err(|_| {
            exec_datafusion_err!("invalid input syntax for type json: \"{}\"", short(text))
        })?;
        Ok(Some(json))
    }

    fn key(&self, row: usize) -> Option<Key> {
        if let Some(numbers) = &self.numbers {
            return numbers
                .is_valid(row)
                .then(|| Key::Place(numbers.value(row)));
        }
        self.text(row).map(|text| Key::Name(text.to_owned()))
    }

    /// What is deleted: a key, or each of an array's names, of which a NULL is passed over.
    fn keys(&self, row: usize) -> Option<Result<Vec<Key>>> {
        if let Some(key) = self.key(row) {
            return Some(Ok(vec![key]));
        }
        let names = self.names(row)?;
        Some(names.map(|names| names.into_iter().flatten().map(Key::Name).collect()))
    }

    /// A path: an array of texts, or one as text.
    fn path(&self, row: usize) -> Option<Result<Vec<String>>> {
        let names = self.names(row)?;
        names.map(|names| names.into_iter().collect()).transpose()
    }

    /// An array of texts, or one as text.
    fn names(&self, row: usize) -> Option<Result<Vec<Option<String>>>> {
        if let Some(text) = self.text(row) {
            let parts = part::path_of(text);
            return Some(parts.map(|parts| parts.into_iter().map(Some).collect()));
        }
        let list = self.array.as_list_opt::<i32>()?;
        if list.is_null(row) {
            return None;
        }
        let parts = match cast(&list.value(row), &DataType::Utf8) {
            Ok(parts) => parts,
            Err(error) => return Some(Err(error.into())),
        };
        let parts = parts.as_string::<i32>().iter();
        Some(Ok(parts.map(|part| part.map(str::to_owned)).collect()))
    }

    /// A value of any type as JSON.
    fn value(&self, row: usize) -> Result<Option<Json>> {
        if self.array.is_null(row) {
            return Ok(None);
        }
        if is_json(&self.field) {
            return self.json(row);
        }
        make::value(&self.array, row).map(Some)
    }

    /// The JSON texts of an array.
    fn elements(&self, row: usize) -> Result<Option<Vec<Json>>> {
        let Some(list) = self.array.as_list_opt::<i32>() else {
            return exec_err!("{} is no array", self.array.data_type());
        };
        if list.is_null(row) {
            return Ok(None);
        }
        let texts = cast(&list.value(row), &DataType::Utf8)?;
        let texts = texts.as_string::<i32>().iter();
        let values = texts.map(|text| match text {
            Some(text) => {
                Json::parse(text).map_err(|at| exec_datafusion_err!("no JSON at byte {at}"))
            }
            None => Ok(make::null()),
        });
        values.collect::<Result<_>>().map(Some)
    }
}
