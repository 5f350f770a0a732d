package decision

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// BatchID identifies a batch. The sender generates a random ID and sends the batch again with the same ID, so that it is stored once. The
// zero value is no ID.
type BatchID [16]byte

// NewBatchID returns a new ID.
func NewBatchID() (id BatchID) {
	_, _ = rand.Read(id[:]) // it always fills the bytes
	return id
}

// Part returns the ID of a part of the batch. The same part has the same ID when the batch is sent again; the first one has the ID of the batch.
func (id BatchID) Part(n uint32) BatchID {
	if n == 0 || id == (BatchID{}) {
		return id
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(id[:], n))
	return BatchID(sum[:16])
}

// OnceStore is a Store that remembers the IDs of recent batches, together with their records. Its methods are safe for concurrent use.
type OnceStore interface {
	Store
	// WriteOnce is Write for a batch with an ID. It returns nil for a batch whose ID is remembered, since that batch is stored already.
	WriteOnce(ctx context.Context, id BatchID, records []Record) error
}

// The field numbers of message Batch.
const (
	batchRecordsField = 1
	batchIDField      = 2
)

// AppendBatch appends the records as message Batch. A text that an earlier record of the batch has is not repeated.
func AppendBatch(b []byte, id BatchID, records []Record) ([]byte, error) {
	if id != (BatchID{}) {
		b = protowire.AppendBytes(protowire.AppendTag(b, batchIDField, protowire.BytesType), id[:])
	}
	var written map[string]bool
	for i := range records {
		r := records[i]
		if r.Request != nil {
			if written == nil {
				written = map[string]bool{}
			}
			r.Request = r.Request.mapped(func(body *Body) *Body {
				if len(body.Deflated) == 0 {
					return body
				}
				if written[body.Digest] {
					return &Body{Digest: body.Digest}
				}
				written[body.Digest] = true
				return body
			})
		}
		var err error
		b = protowire.AppendTag(b, batchRecordsField, protowire.BytesType)
		began := len(b)
		if b, err = r.AppendProto(b); err != nil {
			return nil, err
		}
		b = enclose(b, began)
	}
	return b, nil
}

// ParseBatch returns the ID and the records of a message Batch. More than most records, a record of another schema, or a text that is not
// in the batch is an error. Unknown fields are ignored, since a newer version may have added them.
func ParseBatch(b []byte, most int) (id BatchID, out []Record, err error) {
	texts := map[string][]byte{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return id, nil, ErrProto
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 || number <= batchIDField && kind != protowire.BytesType {
			return id, nil, ErrProto
		}
		field := b[:size]
		b = b[size:]
		if number > batchIDField {
			continue
		}
		one, _ := protowire.ConsumeBytes(field)
		if number == batchIDField {
			if len(one) != len(id) {
				return id, nil, ErrProto
			}
			id = BatchID(one)
			continue
		}
		if len(out) == most {
			return id, nil, fmt.Errorf("there are more than %d records", most)
		}
		var r Record
		if err := r.MergeProto(one); err != nil {
			return id, nil, err
		}
		if r.Schema != Schema {
			return id, nil, errSchema
		}
		if r.Request != nil {
			for _, body := range r.Request.Bodies() {
				if len(body.Deflated) > 0 {
					texts[body.Digest] = body.Deflated
				} else if body.Deflated = texts[body.Digest]; body.Deflated == nil {
					return id, nil, ErrNoText
				}
			}
		}
		out = append(out, r)
	}
	return id, out, nil
}
