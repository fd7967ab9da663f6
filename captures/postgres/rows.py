"""Row decoders, made per table version: of the log's messages and of a chunk's rows, with one type path."""

from captures.postgres.chunk_rows import ChunkDecoder
from captures.postgres.log_rows import LogDecoder, RelationColumn, compile_log_decoder

__all__ = ["ChunkDecoder", "LogDecoder", "RelationColumn", "compile_log_decoder"]
