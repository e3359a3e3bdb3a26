//! One weight matrix, kept in the form that this machine multiplies fastest.
//!
//! Weights of a small model become `Q8_0` while loading, whatever they were in the file: candle has a
//! fast dot product for it (those for `Q4_1`, `Q5_0` and `Q5_1` are plain loops), and the rounding
//! adds less than the file's own. A few rows use that dot product, many rows are worth unpacking the
//! weights for a floating-point product. Both run on the threads of the caller's pool; candle's own
//! products use threads that spin, which a busy machine makes very slow.

use std::sync::Arc;

use candle_core::{
    Device, Module, Result, Tensor,
    quantized::{
        GgmlDType, GgmlType, QMatMul, QTensor,
        k_quants::{BlockQ8_0, QK8_0},
    },
};
use rayon::prelude::*;

/// From this many rows on, unpacking the weights costs less than it saves.
const ROWS_WORTH_UNPACKING: usize = 32;
/// Output values that one thread computes at a time, and how many share one look at the input.
const STRIP: usize = 64;
const TOGETHER: usize = 4;

/// `out × in` weights.
pub(crate) enum Matrix {
    /// Rows of `in / 32` blocks.
    Small {
        blocks: Vec<BlockQ8_0>,
        inputs: usize,
    },
    /// As in the file: a large model has no room to spare, and its `Q4_K` and `Q6_K` are fast.
    AsItIs(QMatMul),
}

impl Matrix {
    /// `spare_memory` keeps weights as they are where candle multiplies them well.
    pub(crate) fn new(weights: QTensor, spare_memory: bool) -> Result<Self> {
        let (_, inputs) = weights.shape().dims2()?;
        let keep = spare_memory && matches!(weights.dtype(), GgmlDType::Q4K | GgmlDType::Q6K);
        if keep || inputs % QK8_0 != 0 {
            return Ok(Self::AsItIs(QMatMul::from_arc(Arc::new(weights))?));
        }
        let plain = weights
            .dequantize(&Device::Cpu)?
            .flatten_all()?
            .to_vec1::<f32>()?;
        let mut blocks = vec![BlockQ8_0::zeros(); plain.len() / QK8_0];
        BlockQ8_0::from_float(&plain, &mut blocks);
        Ok(Self::Small { blocks, inputs })
    }

    /// `rows × in` times the transposed weights: `rows × out`.
    pub(crate) fn apply(&self, input: &Tensor) -> Result<Tensor> {
        match self {
            Self::AsItIs(product) => product.forward(input),
            Self::Small { blocks, inputs } if input.dim(0)? >= ROWS_WORTH_UNPACKING => {
                input.matmul(&unpacked(blocks, *inputs)?.t()?)
            }
            Self::Small { blocks, inputs } => few_rows(blocks, *inputs, input),
        }
    }
}

fn unpacked(blocks: &[BlockQ8_0], inputs: usize) -> Result<Tensor> {
    let mut plain = vec![0.0; blocks.len() * QK8_0];
    let strip = inputs / QK8_0 * STRIP;
    plain
        .par_chunks_mut(strip * QK8_0)
        .zip(blocks.par_chunks(strip))
        .for_each(|(plain, blocks)| BlockQ8_0::to_float(blocks, plain));
    Tensor::from_vec(plain, (blocks.len() * QK8_0 / inputs, inputs), &Device::Cpu)
}

fn few_rows(blocks: &[BlockQ8_0], inputs: usize, input: &Tensor) -> Result<Tensor> {
    let rows = input.dim(0)?;
    let width = inputs / QK8_0;
    let outputs = blocks.len() / width;
    let plain = input.flatten_all()?.to_vec1::<f32>()?;
    let mut packed = vec![BlockQ8_0::zeros(); rows * width];
    BlockQ8_0::from_float(&plain, &mut packed);

    let mut products = vec![0.0; outputs * rows];
    products
        .par_chunks_mut(STRIP * rows)
        .zip(blocks.par_chunks(STRIP * width))
        .for_each(|(products, blocks)| {
            let some = products
                .chunks_mut(TOGETHER * rows)
                .zip(blocks.chunks(TOGETHER * width));
            for (products, weights) in some {
                dot_products(products, weights, &packed, inputs);
            }
        });
    Tensor::from_vec(products, (outputs, rows), &Device::Cpu)?
        .t()?
        .contiguous()
}

/// Up to four rows of weights with each row of the input: `products` is weights × input rows.
fn dot_products(products: &mut [f32], weights: &[BlockQ8_0], packed: &[BlockQ8_0], inputs: usize) {
    let width = inputs / QK8_0;
    let rows = packed.len() / width;
    let weights: Vec<&[BlockQ8_0]> = weights.chunks(width).collect();
    for (row, packed) in packed.chunks(width).enumerate() {
        if let [first, second, third, fourth] = weights[..] {
            let four = BlockQ8_0::vec_dot_4(inputs, first, second, third, fourth, packed);
            for (index, value) in [four.0, four.1, four.2, four.3].into_iter().enumerate() {
                products[index * rows + row] = value;
            }
        } else {
            for (index, weights) in weights.iter().enumerate() {
                products[index * rows + row] = BlockQ8_0::vec_dot(inputs, weights, packed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way of multiplying must agree up to the rounding of the quantised activations.
    #[test]
    fn all_products_agree() {
        for (outputs, inputs) in [(70, 256), (3, 64)] {
            let weights = Tensor::randn(0f32, 1f32, (outputs, inputs), &Device::Cpu).unwrap();
            for kind in [GgmlDType::Q5_0, GgmlDType::Q8_0, GgmlDType::Q4K] {
                if inputs % kind.block_size() != 0 {
                    continue;
                }
                for (spare_memory, rows) in [
                    (false, 1),
                    (false, 5),
                    (false, ROWS_WORTH_UNPACKING),
                    (true, 2),
                ] {
                    let packed = QTensor::quantize(&weights, kind).unwrap();
                    let exact = packed.dequantize(&Device::Cpu).unwrap();
                    let matrix = Matrix::new(packed, spare_memory).unwrap();
                    let input = Tensor::randn(0f32, 1f32, (rows, inputs), &Device::Cpu).unwrap();
                    let expected = input.matmul(&exact.t().unwrap()).unwrap();
                    let difference = (matrix.apply(&input).unwrap() - expected)
                        .unwrap()
                        .abs()
                        .unwrap();
                    let worst = difference.max_all().unwrap().to_scalar::<f32>().unwrap();
                    assert!(
                        worst < 0.8,
                        "{kind:?} {outputs}×{inputs} with {rows} rows is off by {worst}"
                    );
                }
            }
        }
    }
}
