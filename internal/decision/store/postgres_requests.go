package store

import (
	"context"
	"crypto/sha256"
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

// split returns a request without its bodies, and the keys of the bodies: in the order of bodiesOf, then those of the lookups. A key is
// computed from the whole body, since the digest that the sender states may be wrong.
func (b bodies) split(q *decision.Request, at int64) (*decision.Request, []string, error) {
	out := *q
	all := q.Lookups.Answers()
	if out.Lookups != nil {
		out.Lookups = out.Lookups.WithAnswers(nil)
	}
	keys := make([]string, 0, 3+len(all))
	of := bodiesOf(&out)
	for _, at := range slices.Backward(of[:]) {
		all = slices.Insert(all, 0, *at)
		*at = nil
	}
	for _, body := range all {
		if body == nil {
			keys = append(keys, "")
			continue
		}
		text, err := body.AppendProto(nil)
		if err != nil {
			return nil, nil, err
		}
		sum := sha256.Sum256(text)
		key := base64.StdEncoding.EncodeToString(sum[:16])
		one, ok := b[key]
		if !ok {
			one = storedBody{Key: key, Body: base64.StdEncoding.EncodeToString(text)}
		}
		one.Last = max(one.Last, at)
		b[key] = one
		keys = append(keys, key)
	}
	return &out, keys, nil
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

// bodies reads the bodies of the first n rows, as many as fit on a page. It returns them by their keys, in the form that the database writes.
func (s *Postgres) bodies(ctx context.Context, rows [][][]byte) (out map[string]*decision.Body, n int, err error) {
	out = map[string]*decision.Body{}
	wanted := map[string]bool{}
	for _, row := range rows {
		for _, key := range keysOf(row[3]) {
			wanted[key] = key != ""
		}
	}
	list := func() [][]byte {
		keys := []string{}
		for key, want := range wanted {
			if want {
				keys = append(keys, strings.TrimPrefix(key, `\\x`))
			}
		}
		return [][]byte{[]byte(jsonList(keys))}
	}
	const among = " FROM ephor_decisions_bodies WHERE key = ANY(ARRAY(SELECT decode(jsonb_array_elements_text($1::jsonb), 'hex')))"
	if len(wanted) == 0 {
		return out, len(rows), nil
	}
	found, err := s.query(ctx, "SELECT key, length(body)"+among, list())
	if err != nil {
		return nil, 0, err
	}
	sizes := map[string]int{}
	for _, row := range found {
		if sizes[`\`+string(row[0])], err = strconv.Atoi(string(row[1])); err != nil {
			return nil, 0, fmt.Errorf("read decisions: %w", err)
		}
	}
	clear(wanted)
	total := 0
	for ; n < len(rows); n++ {
		more := 0
		for _, key := range keysOf(rows[n][3]) {
			if key != "" && !wanted[key] {
				more += sizes[key]
			}
		}
		if total += more; total > pageBytes && n > 0 {
			break
		}
		for _, key := range keysOf(rows[n][3]) {
			wanted[key] = key != ""
		}
	}
	if found, err = s.query(ctx, "SELECT key, body"+among, list()); err != nil {
		return nil, 0, err
	}
	for _, row := range found {
		text, err := hex.DecodeString(strings.TrimPrefix(string(row[1]), `\x`))
		body := &decision.Body{}
		if err == nil {
			err = body.MergeProto(text)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read decisions: %w", err)
		}
		out[`\`+string(row[0])] = body
	}
	return out, n, nil
}

// keysOf returns the keys of a row from a list as the database writes it, {"\\x00",NULL}; an empty text stands for a missing body.
func keysOf(list []byte) []string {
	text := strings.Trim(string(list), "{}")
	if text == "" {
		return nil
	}
	out := strings.Split(text, ",")
	for i, key := range out {
		if out[i] = strings.Trim(key, `"`); key == "NULL" {
			out[i] = ""
		}
	}
	return out
}

// fillBodies adds the bodies to a request. A body that was deleted has no text.
func fillBodies(q *decision.Request, list []byte, found map[string]*decision.Body) error {
	keys := keysOf(list)
	if len(keys) < 3 {
		return fmt.Errorf("read decisions: a request has %d bodies", len(keys))
	}
	for i, b := range bodiesOf(q) {
		if keys[i] == "" {
			continue
		}
		if *b = found[keys[i]]; *b == nil {
			*b = &decision.Body{}
		}
	}
	if q.Lookups == nil {
		return nil
	}
	answers := make([]*decision.Body, len(keys)-3)
	for i, key := range keys[3:] {
		if key == "" {
			continue
		}
		if answers[i] = found[key]; answers[i] == nil {
			answers[i] = &decision.Body{}
		}
	}
	q.Lookups = q.Lookups.WithAnswers(answers)
	return nil
}
