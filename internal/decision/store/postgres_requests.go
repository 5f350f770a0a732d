package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/decision"
)

// bodiesLock is the number of the lock that writers of bodies share and that an erasure takes exclusively, so that no body is deleted while
// a decision with it is being stored.
const bodiesLock = "435626799987"

// storedBody is a body to store, in base64, and the last hour that has a decision with it.
type storedBody struct {
	text string
	last int64
}

// bodies has the bodies of a batch by their keys in hex.
type bodies map[string]storedBody

// add adds the bodies of a request. It returns the request without them, and their keys with commas between them; an empty one for a missing body.
func (b bodies) add(q *decision.Request, at int64) (*decision.Request, string, error) {
	q, all := separate(q)
	keys := make([]string, len(all))
	for i, body := range all {
		if body == nil {
			continue
		}
		sum, text, err := encoded(body, nil)
		if err != nil {
			return nil, "", err
		}
		keys[i] = hexed(sum[:])
		b[keys[i]] = storedBody{base64.StdEncoding.EncodeToString(text), max(b[keys[i]].last, at)}
	}
	return q, strings.Join(keys, ","), nil
}

// insert stores the bodies that are not stored yet. All writers use the same order, so that no two of them wait for each other.
func (b bodies) insert(ctx context.Context, tx *sql.Tx) error {
	if len(b) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(b))
	texts, last := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		texts[i], last[i] = b[key].text, strconv.FormatInt(b[key].last, 10)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO ephor_decisions_bodies AS b (key, body, last)
SELECT key, decode(body, 'base64'), last FROM unnest($1::bytea[], $2::text[], $3::bigint[]) WITH ORDINALITY t(key, body, last, n) ORDER BY n
ON CONFLICT (key) DO UPDATE SET last = excluded.last WHERE b.last < excluded.last`, keys, texts, last)
	return err
}

// readBodies returns the function that reads bodies by their keys in hex.
func (s *Postgres) readBodies(ctx context.Context) func(keys []string, text bool, scan func(string, int64, []byte) error) error {
	type row struct {
		key    string
		length int64
		text   []byte
	}
	return func(keys []string, text bool, scan func(string, int64, []byte) error) error {
		// The database looks up each key. If it could count them, it might read the whole table.
		rows, err := query(ctx, s, func(rows *sql.Rows, x *row) error { return rows.Scan(&x.key, &x.length, &x.text) },
			"SELECT '\\x' || encode(key, 'hex'), length(body), CASE WHEN $2 THEN body END FROM ephor_decisions_bodies WHERE key = ANY(ARRAY(SELECT unnest($1::bytea[])))", keys, text)
		for i := 0; i < len(rows) && err == nil; i++ {
			err = scan(rows[i].key, rows[i].length, rows[i].text)
		}
		return err
	}
}
