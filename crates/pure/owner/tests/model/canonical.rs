//! Parts of a state as bytes, with seats renamed: states that differ only in the names of equal copies are one.
//!
//! Promises    two values of one type have the same bytes, each under its renaming, if and only if the renamed values are
//!             equal, the order of lists aside
//! Assumes     what is listed (members, seats, operations) is listed in no order that matters; an id (two fractions, and nothing else
//!             has any), a character and a `copy` that are a seat's letter are that seat's
//!
//! A letter stands in a part as itself, as the number in an id, and as the number of a copy.

use serde::{
    Serialize, Serializer,
    ser::{
        Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
        SerializeTupleStruct, SerializeTupleVariant,
    },
};

/// What each letter becomes; those not named stay.
pub type Renaming = Vec<(char, char)>;

/// The bytes of `part` with its letters renamed.
pub fn encode<T: Serialize + ?Sized>(part: &T, names: &Renaming) -> Vec<u8> {
    part.serialize(Encoder { names }).expect("the model's parts are plain values")
}

fn renamed(number: u64, names: &Renaming) -> u64 {
    let new = names.iter().find(|(old, _)| u64::from(u32::from(*old)) == number);
    new.map_or(number, |(_, new)| u64::from(u32::from(*new)))
}

/// Marks a half of an id: no other part has nine bytes.
const HALF: u8 = b'h';

fn fixed(number: u64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

#[derive(Clone, Copy)]
struct Encoder<'a> {
    names: &'a Renaming,
}

/// What a compound value is made of, each part with its length.
struct Parts<'a> {
    names: &'a Renaming,
    parts: Vec<Vec<u8>>,
    /// In no order.
    is_set: bool,
    variant: Option<u32>,
}

type Error = serde::de::value::Error;
type Bytes = Result<Vec<u8>, Error>;

impl<'a> Encoder<'a> {
    fn parts(self, is_set: bool, variant: Option<u32>) -> Result<Parts<'a>, Error> {
        Ok(Parts { names: self.names, parts: Vec::new(), is_set, variant })
    }
}

impl Parts<'_> {
    fn add<T: Serialize + ?Sized>(&mut self, part: &T) -> Result<(), Error> {
        self.parts.push(part.serialize(Encoder { names: self.names })?);
        Ok(())
    }

    fn add_named<T: Serialize + ?Sized>(&mut self, key: &str, part: &T) -> Result<(), Error> {
        self.add(part)?;
        if key == "copy" {
            let copy = self.parts.last_mut().expect("just added");
            let letter = number(copy).ok_or_else(|| Error::custom("a copy is a number"))?;
            *copy = fixed(renamed(letter, self.names));
        }
        Ok(())
    }

    fn finish(mut self) -> Bytes {
        if let Some(id) = self.id() {
            return Ok([vec![b'i'], fixed(renamed(id, self.names))].concat());
        }
        if self.is_set {
            self.parts.sort_unstable();
        }
        let mut bytes = fixed(u64::from(self.variant.unwrap_or_default()));
        bytes.extend(fixed(self.parts.len() as u64));
        for part in &self.parts {
            bytes.extend(fixed(part.len() as u64));
            bytes.extend(part);
        }
        Ok(bytes)
    }

    /// Two fractions, the first of which says all: an id of the model.
    fn id(&self) -> Option<u64> {
        let [low, high] = self.parts.as_slice() else { return None };
        let half = |part: &[u8]| part.strip_prefix(&[HALF]).and_then(number);
        half(low).filter(|_| half(high) == Some(0))
    }
}

macro_rules! numbers {
    ($($method:ident $kind:ty),*) => { $(
        fn $method(self, value: $kind) -> Bytes {
            Ok(fixed(value as u64))
        }
    )* };
}

impl<'a> Serializer for Encoder<'a> {
    type Ok = Vec<u8>;
    type Error = Error;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = Parts<'a>;
    type SerializeMap = Parts<'a>;
    type SerializeStruct = Parts<'a>;
    type SerializeStructVariant = Parts<'a>;

    numbers!(
        serialize_bool bool, serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64
    );
    fn serialize_f32(self, _: f32) -> Bytes {
        Err(Error::custom("no fractions in the model"))
    }
    fn serialize_f64(self, half: f64) -> Bytes {
        Ok([vec![HALF], fixed(half.to_bits())].concat())
    }
    fn serialize_char(self, letter: char) -> Bytes {
        Ok(fixed(renamed(u64::from(u32::from(letter)), self.names)))
    }
    fn serialize_str(self, text: &str) -> Bytes {
        Ok(text.as_bytes().to_vec())
    }
    fn serialize_bytes(self, bytes: &[u8]) -> Bytes {
        Ok(bytes.to_vec())
    }
    fn serialize_none(self) -> Bytes {
        Ok(vec![0])
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Bytes {
        Ok([vec![1], value.serialize(self)?].concat())
    }
    fn serialize_unit(self) -> Bytes {
        Ok(Vec::new())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Bytes {
        Ok(Vec::new())
    }
    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Bytes {
        self.parts(false, Some(index))?.finish()
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Bytes {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        value: &T,
    ) -> Bytes {
        let mut parts = self.parts(false, Some(index))?;
        parts.add(value)?;
        parts.finish()
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'a>, Error> {
        self.parts(true, None)
    }
    fn serialize_tuple(self, _: usize) -> Result<Parts<'a>, Error> {
        self.parts(false, None)
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts<'a>, Error> {
        self.parts(false, None)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts<'a>, Error> {
        self.parts(false, Some(index))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Parts<'a>, Error> {
        self.parts(true, None)
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts<'a>, Error> {
        self.parts(false, None)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts<'a>, Error> {
        self.parts(false, Some(index))
    }
    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! compound {
    ($($kind:ident $method:ident),*) => { $(
        impl $kind for Parts<'_> {
            type Ok = Vec<u8>;
            type Error = Error;
            fn $method<T: Serialize + ?Sized>(&mut self, part: &T) -> Result<(), Error> {
                self.add(part)
            }
            fn end(self) -> Bytes {
                self.finish()
            }
        }
    )* };
}

compound!(
    SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

impl SerializeMap for Parts<'_> {
    type Ok = Vec<u8>;
    type Error = Error;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.add(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let value = value.serialize(Encoder { names: self.names })?;
        let entry = self.parts.last_mut().expect("a key comes before its value");
        let key_len = fixed(entry.len() as u64);
        *entry = [key_len, std::mem::take(entry), value].concat();
        Ok(())
    }
    fn end(self) -> Bytes {
        self.finish()
    }
}

impl SerializeStruct for Parts<'_> {
    type Ok = Vec<u8>;
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.add_named(key, value)
    }
    fn end(self) -> Bytes {
        self.finish()
    }
}

impl SerializeStructVariant for Parts<'_> {
    type Ok = Vec<u8>;
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.add_named(key, value)
    }
    fn end(self) -> Bytes {
        self.finish()
    }
}
