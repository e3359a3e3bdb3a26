//! Keys and values of the tokens that were read, so that they need not be read again.
//!
//! The cache grows in steps and can be cut back to any shorter length, which is what lets the next
//! turn of a conversation reuse everything up to the first token that differs.

use candle_core::{DType, Device, Result, Tensor};

use crate::transformer::Dimensions;

/// Tokens of room added at a time.
const STEP: usize = 512;

pub(crate) struct KvCache {
    /// Keys and values of each layer: `heads × room × head size`.
    layers: Vec<(Tensor, Tensor)>,
    heads: usize,
    head_size: usize,
    len: usize,
    room: usize,
}

impl KvCache {
    pub(crate) fn new(dimensions: &Dimensions) -> Result<Self> {
        let (heads, head_size) = (dimensions.key_value_heads, dimensions.head_size);
        let empty = || Tensor::zeros((heads, 0, head_size), DType::F32, &Device::Cpu);
        let layers = (0..dimensions.layers)
            .map(|_| Ok((empty()?, empty()?)))
            .collect::<Result<_>>()?;
        Ok(Self {
            layers,
            heads,
            head_size,
            len: 0,
            room: 0,
        })
    }

    /// Tokens held.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Forgets all but the first `len` tokens.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes room for `more` tokens after those held.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<()> {
        if self.len + more <= self.room {
            return Ok(());
        }
        let room = (self.len + more).next_multiple_of(STEP);
        for (keys, values) in &mut self.layers {
            for held in [keys, values] {
                let grown =
                    Tensor::zeros((self.heads, room, self.head_size), DType::F32, &Device::Cpu)?;
                if self.len > 0 {
                    grown.slice_set(&held.narrow(1, 0, self.len)?.contiguous()?, 1, 0)?;
                }
                *held = grown;
            }
        }
        self.room = room;
        Ok(())
    }

    /// Puts `key` and `value` (`heads × rows × head size`) of one layer behind the tokens held, and
    /// returns all of that layer, the new rows included. The length changes with [`Self::advance`].
    pub(crate) fn append(
        &mut self,
        layer: usize,
        key: &Tensor,
        value: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let (keys, values) = &self.layers[layer];
        let len = self.len + key.dim(1)?;
        keys.slice_set(key, 1, self.len)?;
        values.slice_set(value, 1, self.len)?;
        Ok((keys.narrow(1, 0, len)?, values.narrow(1, 0, len)?))
    }

    /// Counts `rows` that every layer has appended.
    pub(crate) fn advance(&mut self, rows: usize) {
        self.len += rows;
    }
}
