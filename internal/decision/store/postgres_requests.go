package store

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"ephor.invalid/ephor/internal/decision"
)

// bodiesLock is the number of the lock that writers of bodies share and that an erasure takes exclusively, so that no body is deleted while
// a decision with it is being stored.
const bodiesLock = "435626799987"

// storedBody is a body to store.
type storedBody struct {
	Key  string `json:"key"` // in base64
	Body string `json:"body"`
	Last int64  `json:"last"`
}

// bodies has the bodies of a batch by their keys.
type bodies map[string]storedBody

// add adds the bodies of a request. It returns the request without them, and their keys; an empty one for a missing body.
func (b bodies) add(q *decision.Request, at int64) (*decision.Request, []string, error) {
	q, all := separate(q)
	keys := make([]string, len(all))
	for i, body := range all {
		if body == nil {
			continue
		}
		sum, text, err := encoded(body, nil)
		if err != nil {
			return nil, nil, err
		}
		key := base64.StdEncoding.EncodeToString(sum[:])
		one, ok := b[key]
		if !ok {
			one = storedBody{Key: key, Body: base64.StdEncoding.EncodeToString(text)}
		}
		one.Last = max(one.Last, at)
		b[key], keys[i] = one, key
	}
	return q, keys, nil
}

// insert stores the bodies that are not stored yet. All writers use the same order, so that no two of them wait for each other.
func (b bodies) insert(ctx context.Context, c *pgconn.PgConn) error {
	if len(b) == 0 {
		return nil
	}
	list := make([]storedBody, 0, len(b))
	for _, key := range slices.Sorted(maps.Keys(b)) {
		list = append(list, b[key])
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return c.ExecParams(ctx, `INSERT INTO ephor_decisions_bodies AS b (key, body, last)
SELECT decode(x->>'key', 'base64'), decode(x->>'body', 'base64'), (x->>'last')::bigint FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY t(x, n) ORDER BY n
ON CONFLICT (key) DO UPDATE SET last = excluded.last WHERE b.last < excluded.last`, [][]byte{text}, nil, nil, nil).Read().Err
}

// bodies reads the bodies of the first records, as many as fit on a page. rows has the keys of each record, in hex; an empty one for a missing body.
func (s *Postgres) bodies(ctx context.Context, rows [][]string) (out map[string]*decision.Body, n int, err error) {
	const among = " FROM ephor_decisions_bodies WHERE key = ANY(ARRAY(SELECT decode(jsonb_array_elements_text($1::jsonb), 'hex')))"
	all := distinct(rows)
	if len(all) == 0 {
		return nil, len(rows), nil
	}
	found, err := s.query(ctx, "SELECT encode(key, 'hex'), length(body)"+among, [][]byte{[]byte(jsonList(all))})
	if err != nil {
		return nil, 0, err
	}
	sizes := map[string]int64{}
	for _, row := range found {
		if sizes[string(row[0])], err = strconv.ParseInt(string(row[1]), 10, 64); err != nil {
			return nil, 0, fmt.Errorf("read decisions: %w", err)
		}
	}
	n = fitting(rows, sizes, 0)
	if found, err = s.query(ctx, "SELECT encode(key, 'hex'), encode(body, 'hex')"+among, [][]byte{[]byte(jsonList(distinct(rows[:n])))}); err != nil {
		return nil, 0, err
	}
	out = map[string]*decision.Body{}
	for _, row := range found {
		text, err := hex.DecodeString(string(row[1]))
		body := &decision.Body{}
		if err == nil {
			err = body.MergeProto(text)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read decisions: %w", err)
		}
		out[string(row[0])] = body
	}
	return out, n, nil
}

// keysOf returns the keys of a row from a list as the database writes it, {"\\x00",NULL}, in hex; an empty text stands for a missing body.
func keysOf(list []byte) []string {
	text := strings.Trim(string(list), "{}")
	if text == "" {
		return nil
	}
	out := strings.Split(text, ",")
	for i, key := range out {
		if out[i] = strings.TrimPrefix(strings.Trim(key, `"`), `\\x`); key == "NULL" {
			out[i] = ""
		}
	}
	return out
}

// withBodies returns a request with its bodies. A body that was deleted has no text.
func withBodies(q *decision.Request, keys []string, found map[string]*decision.Body) (*decision.Request, error) {
	if len(keys) < 3 {
		return nil, fmt.Errorf("read decisions: a request has %d bodies", len(keys))
	}
	bodies := make([]*decision.Body, len(keys))
	for i, key := range keys {
		if key == "" {
			continue
		}
		if bodies[i] = found[key]; bodies[i] == nil {
			bodies[i] = &decision.Body{}
		}
	}
	return united(q, bodies), nil
}
