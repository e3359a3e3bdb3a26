//! The forward pass of the Llama, Qwen2 and Qwen3 families on quantised weights.
//!
//! One decoder for all three, because they differ in little (biases, norms of queries and keys, the
//! way positions are rotated) and share what matters here: a key-value cache that can be cut back to
//! any length, work that can be stopped between two layers, and matrices that read a prompt fast.
//! It leaves out batches, mixtures of experts and stretched contexts.

use candle_core::{Device, Result as TensorResult, Tensor, quantized::QTensor};
use candle_nn::{ops, rotary_emb};
use rayon::prelude::*;

use crate::{
    gguf::{Gguf, LoadError},
    kv_cache::KvCache,
    matrix::Matrix,
};

/// Bytes of weights beyond which they are kept as they are in the file.
const LARGE: u64 = 1_200_000_000;

/// How positions are mixed into queries and keys.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rotation {
    /// Neighbouring values make a pair (`llama` files are permuted for this).
    Neighbours,
    /// The first half pairs with the second half.
    Halves,
}

/// The sizes of a model.
#[derive(Debug, Clone)]
pub(crate) struct Dimensions {
    pub(crate) layers: usize,
    pub(crate) key_value_heads: usize,
    pub(crate) head_size: usize,
    /// Tokens that the model was made for.
    pub(crate) context: usize,
    heads: usize,
    epsilon: f32,
    rotation: Rotation,
    rotation_base: f32,
}

impl Dimensions {
    pub(crate) fn read(file: &Gguf) -> Result<Self, LoadError> {
        let family = file
            .text("general.architecture")
            .ok_or_else(|| file.missing("general.architecture"))?;
        let rotation = match family {
            "llama" => Rotation::Neighbours,
            "qwen2" | "qwen3" => Rotation::Halves,
            other => {
                return Err(file.unsupported(format!(
                    "its architecture is `{other}`; only `llama`, `qwen2` and `qwen3` are implemented"
                )));
            }
        };
        let scaling = file
            .text(&format!("{family}.rope.scaling.type"))
            .unwrap_or("none");
        if scaling != "none" || file.has_tensor("rope_freqs.weight") {
            return Err(file
                .unsupported("it stretches its context (rope scaling), which is not implemented"));
        }
        let size = |key: &str| {
            let key = format!("{family}.{key}");
            let number = file
                .number(&key)
                .and_then(|number| usize::try_from(number).ok());
            number
                .filter(|number| *number > 0)
                .ok_or_else(|| file.missing(&key))
        };
        let heads = size("attention.head_count")?;
        let epsilon = format!("{family}.attention.layer_norm_rms_epsilon");
        Ok(Self {
            layers: size("block_count")?,
            heads,
            key_value_heads: size("attention.head_count_kv").unwrap_or(heads),
            head_size: size("attention.key_length")
                .or_else(|_| Ok(size("embedding_length")? / heads))?,
            context: size("context_length")?,
            epsilon: file.float(&epsilon).ok_or_else(|| file.missing(&epsilon))?,
            rotation,
            rotation_base: file
                .float(&format!("{family}.rope.freq_base"))
                .unwrap_or(10_000.0),
        })
    }
}

struct Layer {
    attention_norm: Tensor,
    query: Projection,
    key: Projection,
    value: Projection,
    output: Matrix,
    feed_forward_norm: Tensor,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

/// A matrix with what may follow it: a bias (Qwen2) or a norm of each head (Qwen3).
struct Projection {
    weights: Matrix,
    bias: Option<Tensor>,
    norm: Option<Tensor>,
}

/// The weights of a model, ready to run.
pub(crate) struct Transformer {
    dimensions: Dimensions,
    embedding: QTensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Matrix,
    cosines: Tensor,
    sines: Tensor,
}

impl Transformer {
    /// Reads all weights. `context` is how many positions will be used at most.
    pub(crate) fn load(
        file: &mut Gguf,
        dimensions: Dimensions,
        context: usize,
    ) -> Result<Self, LoadError> {
        let raw = (0..dimensions.layers)
            .map(|index| RawLayer::read(file, index))
            .collect::<Result<Vec<_>, _>>()?;
        let spare_memory = file.tensor_bytes() > LARGE;
        let layers = raw
            .into_par_iter()
            .map(|layer| layer.prepare(spare_memory))
            .collect::<TensorResult<Vec<_>>>();
        let embedding = file.tensor("token_embd.weight")?;
        let head = if file.has_tensor("output.weight") {
            "output.weight"
        } else {
            "token_embd.weight"
        };
        let head = Matrix::new(file.tensor(head)?, spare_memory);
        let norm = file.tensor("output_norm.weight")?.dequantize(&Device::Cpu);
        let rotation = rotation_table(&dimensions, context);
        let broken = |error: candle_core::Error| file.broken(error.to_string());
        let (cosines, sines) = rotation.map_err(broken)?;
        Ok(Self {
            layers: layers.map_err(broken)?,
            embedding,
            norm: norm.map_err(broken)?,
            head: head.map_err(broken)?,
            cosines,
            sines,
            dimensions,
        })
    }

    /// Runs `tokens`, which follow what `cache` holds, and returns the logits after the last of them.
    ///
    /// `stopped` is asked before each layer; when it says yes the result is `None` and the cache is
    /// as long as it was. `tokens` must not be empty, and must fit the context.
    pub(crate) fn forward(
        &self,
        tokens: &[u32],
        cache: &mut KvCache,
        stopped: &dyn Fn() -> bool,
    ) -> TensorResult<Option<Vec<f32>>> {
        cache.reserve(tokens.len())?;
        let mask = causal_mask(tokens.len(), cache.len())?;
        let mut state = self
            .embedding
            .embedding(&Tensor::new(tokens, &Device::Cpu)?)?;
        for (index, layer) in self.layers.iter().enumerate() {
            if stopped() {
                return Ok(None);
            }
            let normed = ops::rms_norm(&state, &layer.attention_norm, self.dimensions.epsilon)?;
            state = (state + self.attend(layer, &normed, mask.as_ref(), (&mut *cache, index))?)?;
            let normed = ops::rms_norm(&state, &layer.feed_forward_norm, self.dimensions.epsilon)?;
            let gated = (ops::silu(&layer.gate.apply(&normed)?)? * layer.up.apply(&normed)?)?;
            state = (state + layer.down.apply(&gated)?)?;
        }
        cache.advance(tokens.len());
        let last = state.narrow(0, tokens.len() - 1, 1)?.contiguous()?;
        let last = ops::rms_norm(&last, &self.norm, self.dimensions.epsilon)?;
        self.head.apply(&last)?.flatten_all()?.to_vec1().map(Some)
    }

    /// Attention of one layer: `rows × hidden` to `rows × hidden`.
    fn attend(
        &self,
        layer: &Layer,
        input: &Tensor,
        mask: Option<&Tensor>,
        (cache, index): (&mut KvCache, usize),
    ) -> TensorResult<Tensor> {
        let Dimensions {
            heads,
            key_value_heads,
            head_size,
            ..
        } = self.dimensions;
        let rows = input.dim(0)?;
        let query = self.rotate(&self.project(&layer.query, input, heads)?, cache.len())?;
        let key = self.rotate(
            &self.project(&layer.key, input, key_value_heads)?,
            cache.len(),
        )?;
        let value = self.project(&layer.value, input, key_value_heads)?;
        let (keys, values) = cache.append(index, &key, &value)?;

        // The heads that share keys lie side by side, so they become rows of one product.
        let shared = heads / key_value_heads;
        let query =
            (query * (1.0 / f64::from(u32::try_from(head_size).unwrap_or(u32::MAX)).sqrt()))?;
        let scores = query
            .reshape((key_value_heads, shared * rows, head_size))?
            .matmul(&keys.transpose(1, 2)?)?;
        let scores = match mask {
            Some(mask) => {
                let length = mask.dim(1)?;
                scores
                    .reshape((key_value_heads, shared, rows, length))?
                    .broadcast_add(mask)?
                    .reshape((key_value_heads, shared * rows, length))?
            }
            None => scores,
        };
        let mixed = ops::softmax_last_dim(&scores)?.matmul(&values)?;
        let mixed = mixed
            .reshape((heads, rows, head_size))?
            .transpose(0, 1)?
            .contiguous()?;
        layer
            .output
            .apply(&mixed.reshape((rows, heads * head_size))?)
    }

    /// `rows × hidden` to `heads × rows × head size`.
    fn project(
        &self,
        projection: &Projection,
        input: &Tensor,
        heads: usize,
    ) -> TensorResult<Tensor> {
        let mut output = projection.weights.apply(input)?;
        if let Some(bias) = &projection.bias {
            output = output.broadcast_add(bias)?;
        }
        let mut output = output.reshape((input.dim(0)?, heads, self.dimensions.head_size))?;
        if let Some(norm) = &projection.norm {
            output = ops::rms_norm(&output, norm, self.dimensions.epsilon)?;
        }
        output.transpose(0, 1)?.contiguous()
    }

    fn rotate(&self, heads: &Tensor, offset: usize) -> TensorResult<Tensor> {
        let rows = heads.dim(1)?;
        let cosines = self.cosines.narrow(0, offset, rows)?;
        let sines = self.sines.narrow(0, offset, rows)?;
        let heads = heads.unsqueeze(0)?;
        let rotated = match self.dimensions.rotation {
            Rotation::Neighbours => rotary_emb::rope_i(&heads, &cosines, &sines)?,
            Rotation::Halves => rotary_emb::rope(&heads, &cosines, &sines)?,
        };
        rotated.squeeze(0)
    }
}

/// What later tokens must not see: `rows × (seen + rows)` of 0 and minus infinity. A single row may
/// see all.
fn causal_mask(rows: usize, seen: usize) -> TensorResult<Option<Tensor>> {
    if rows == 1 {
        return Ok(None);
    }
    let length = seen + rows;
    let hidden = |row: usize| {
        (0..length).map(move |column| {
            if column > seen + row {
                f32::NEG_INFINITY
            } else {
                0.0
            }
        })
    };
    let mask: Vec<f32> = (0..rows).flat_map(hidden).collect();
    Tensor::from_vec(mask, (rows, length), &Device::Cpu).map(Some)
}

/// Cosines and sines of all positions: `context × head size / 2` each.
fn rotation_table(dimensions: &Dimensions, context: usize) -> TensorResult<(Tensor, Tensor)> {
    let size = u16::try_from(dimensions.head_size).unwrap_or(u16::MAX);
    let frequencies: Vec<f32> = (0..size)
        .step_by(2)
        .map(|index| {
            1.0 / dimensions
                .rotation_base
                .powf(f32::from(index) / f32::from(size))
        })
        .collect();
    let positions = Tensor::arange(
        0u32,
        u32::try_from(context).unwrap_or(u32::MAX),
        &Device::Cpu,
    )?
    .to_dtype(candle_core::DType::F32)?
    .unsqueeze(1)?;
    let angles = positions.matmul(&Tensor::new(frequencies, &Device::Cpu)?.unsqueeze(0)?)?;
    Ok((angles.cos()?, angles.sin()?))
}

/// The tensors of one layer as they are in the file.
struct RawLayer {
    attention_norm: QTensor,
    projections: [RawProjection; 3],
    output: QTensor,
    feed_forward_norm: QTensor,
    feed_forward: [QTensor; 3],
}

struct RawProjection {
    weights: QTensor,
    bias: Option<QTensor>,
    norm: Option<QTensor>,
}

impl RawLayer {
    fn read(file: &mut Gguf, index: usize) -> Result<Self, LoadError> {
        let mut tensor = |name: &str| file.tensor(&format!("blk.{index}.{name}.weight"));
        let attention_norm = tensor("attn_norm")?;
        let output = tensor("attn_output")?;
        let feed_forward_norm = tensor("ffn_norm")?;
        let feed_forward = [tensor("ffn_gate")?, tensor("ffn_up")?, tensor("ffn_down")?];
        let mut projection = |name: &str| -> Result<RawProjection, LoadError> {
            let mut optional = |name: String| {
                if file.has_tensor(&name) {
                    file.tensor(&name).map(Some)
                } else {
                    Ok(None)
                }
            };
            let bias = optional(format!("blk.{index}.attn_{name}.bias"))?;
            let norm = optional(format!("blk.{index}.attn_{name}_norm.weight"))?;
            Ok(RawProjection {
                weights: file.tensor(&format!("blk.{index}.attn_{name}.weight"))?,
                bias,
                norm,
            })
        };
        let projections = [projection("q")?, projection("k")?, projection("v")?];
        Ok(Self {
            attention_norm,
            projections,
            output,
            feed_forward_norm,
            feed_forward,
        })
    }

    fn prepare(self, spare_memory: bool) -> TensorResult<Layer> {
        let [query, key, value] = self.projections;
        let [gate, up, down] = self.feed_forward;
        Ok(Layer {
            attention_norm: self.attention_norm.dequantize(&Device::Cpu)?,
            query: query.prepare(spare_memory)?,
            key: key.prepare(spare_memory)?,
            value: value.prepare(spare_memory)?,
            output: Matrix::new(self.output, spare_memory)?,
            feed_forward_norm: self.feed_forward_norm.dequantize(&Device::Cpu)?,
            gate: Matrix::new(gate, spare_memory)?,
            up: Matrix::new(up, spare_memory)?,
            down: Matrix::new(down, spare_memory)?,
        })
    }
}

impl RawProjection {
    fn prepare(self, spare_memory: bool) -> TensorResult<Projection> {
        let plain = |tensor: Option<QTensor>| {
            tensor
                .map(|tensor| tensor.dequantize(&Device::Cpu))
                .transpose()
        };
        Ok(Projection {
            weights: Matrix::new(self.weights, spare_memory)?,
            bias: plain(self.bias)?,
            norm: plain(self.norm)?,
        })
    }
}
