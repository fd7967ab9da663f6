"""Row decoders, generated per table version: of the log's messages and of a chunk's rows, with one type path."""

from captures.postgres.chunk_rows import ChunkDecoder, compile_chunk_decoder
from captures.postgres.log_rows import LogDecoder, RelationColumn, compile_log_decoder

__all__ = ["ChunkDecoder", "LogDecoder", "RelationColumn", "compile_chunk_decoder", "compile_log_decoder"]
