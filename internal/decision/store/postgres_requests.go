package store

import (
	"bytes"
	"context"
	"database/sql"
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/decision"
)

// bodiesLock is the number of the lock that writers of bodies share and that an erasure takes exclusively, so that no body is deleted while
// a decision with it is being stored.
const bodiesLock = "435626799987"

// storedBody is a body to store, and the last hour that has a decision with it.
type storedBody struct {
	text []byte
	last int64
}

// bodies has the bodies of a batch by their keys.
type bodies map[[16]byte]storedBody

// add adds the bodies of a request. It returns the request without them, and their keys; nil for a missing body.
func (b bodies) add(q *decision.Request, at int64) (*decision.Request, [][]byte, error) {
	q, all := separate(q)
	keys := make([][]byte, len(all))
	for i, body := range all {
		if body == nil {
			continue
		}
		key, text, err := encoded(body, nil)
		if err != nil {
			return nil, nil, err
		}
		b[key], keys[i] = storedBody{text, max(b[key].last, at)}, key[:]
	}
	return q, keys, nil
}

// insert stores the bodies that are not stored yet. All writers use the same order, so that no two of them wait for each other.
func (b bodies) insert(ctx context.Context, tx *sql.Tx) error {
	if len(b) == 0 {
		return nil
	}
	var keys, texts [][]byte
	var last []int64
	for _, key := range slices.SortedFunc(maps.Keys(b), func(x, y [16]byte) int { return bytes.Compare(x[:], y[:]) }) {
		keys, texts, last = append(keys, key[:]), append(texts, b[key].text), append(last, b[key].last)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO ephor_decisions_bodies AS b (key, body, last)
SELECT key, body, last FROM unnest($1::bytea[], $2::bytea[], $3::bigint[]) WITH ORDINALITY t(key, body, last, n) ORDER BY n
ON CONFLICT (key) DO UPDATE SET last = excluded.last WHERE b.last < excluded.last`, keys, texts, last)
	return err
}

// readBodies returns the function that reads bodies by their keys, which begin with \x.
func (s *Postgres) readBodies(ctx context.Context) func(keys []string, text bool, scan func(string, int64, []byte) error) error {
	type row struct {
		key    string
		length int64
		text   []byte
	}
	return func(keys []string, text bool, scan func(string, int64, []byte) error) error {
		rows, err := query(ctx, s, func(rows *sql.Rows, x *row) error { return rows.Scan(&x.key, &x.length, &x.text) },
			"SELECT '\\x' || encode(key, 'hex'), length(body), CASE WHEN $2 THEN body END FROM ephor_decisions_bodies WHERE key = ANY($1::bytea[])", keys, text)
		for i := 0; i < len(rows) && err == nil; i++ {
			err = scan(rows[i].key, rows[i].length, rows[i].text)
		}
		return err
	}
}
