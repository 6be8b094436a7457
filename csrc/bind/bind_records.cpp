// Bindings of io/records.h.
#include "../io/records.h"
#include "arrays.h"

namespace sparsenet {
namespace {

void bind_encode_rows(Array indptr, Array indices, Array values, int64_t value_bytes, Array out, Array ends) {
  const Pointers indptr_(indptr, "indptr");
  const Vector<const int32_t> indices_(indices, "indices");
  const Vector<const double> values_(values, "values");
  const Vector<uint8_t> out_(out, "out");
  const Vector<int64_t> ends_(ends, "ends");
  indices_.require_room(indptr_.last());
  values_.require_room(indptr_.last());
  require_between("value_bytes", value_bytes, 0, 8);
  out_.require_room(indptr_.last() * (4 + value_bytes));
  ends_.require(0, indptr_.size(), "length of indptr");
  GilRelease release;
  encode_rows(indptr_.data(), indptr_.n_rows(), indices_.data(), values_.data(), value_bytes, out_.data(),
              ends_.data());
}

int64_t bind_decode_rows(Array records, Array starts, Array value_bytes, int64_t width, Array indptr, Array indices,
                         Array values, int threads) {
  const Vector<const uint8_t> records_(records, "records"), value_bytes_(value_bytes, "value_bytes");
  const Pointers starts_(starts, "starts"), indptr_(indptr, "indptr");
  const Vector<int32_t> indices_(indices, "indices");
  const Vector<double> values_(values, "values");
  records_.require_room(starts_.last());
  value_bytes_.require(0, starts_.n_rows(), "number of records");
  indptr_.require(0, starts_.size(), "length of starts");
  indices_.require_room(indptr_.last());
  values_.require_room(indptr_.last());
  require_threads(threads);
  GilRelease release;
  return decode_rows(records_.data(), starts_.data(), starts_.n_rows(), value_bytes_.data(), width, indptr_.data(),
                     indices_.data(), values_.data(), threads);
}

int64_t bind_read_records(int file, Array offsets, Array starts, Array out) {
  const Vector<const int64_t> offsets_(offsets, "offsets");
  const Pointers starts_(starts, "starts");
  const Vector<uint8_t> out_(out, "out");
  offsets_.require(0, starts_.n_rows(), "number of records");
  out_.require_room(starts_.last());
  GilRelease release;
  return read_records(file, offsets_.data(), starts_.data(), starts_.n_rows(), out_.data());
}

}  // namespace

void bind_records(py::module_& core) {
  core.def("encode_rows", bind_encode_rows, "indptr"_a, "indices"_a, "values"_a, "value_bytes"_a, "out"_a, "ends"_a);
  core.def("decode_rows", bind_decode_rows, "records"_a, "starts"_a, "value_bytes"_a, "width"_a, "indptr"_a,
           "indices"_a, "values"_a, "threads"_a);
  core.def("read_records", bind_read_records, "file"_a, "offsets"_a, "starts"_a, "out"_a);
}

}  // namespace sparsenet
