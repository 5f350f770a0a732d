package store

import (
	"container/heap"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// The limits of one page.
const (
	// pageTime is the time limit of the search for a page.
	pageTime = 2 * time.Second
	// pageScan is the number of records that are scanned between two checks of the time limit.
	pageScan = 20_000
	// maxShapes is the maximum number of shapes that are read one by one. If there are more, all records of the period are scanned.
	maxShapes = 2000
	// ahead is the number of ids of a shape that are read at once.
	ahead = 32
)

const columns = "id, uid, what, who, place, name, shape, texts, took, times, object, patch, rest"

// selection is a query in terms of ids.
type selection struct {
	from, to int64 // from ≤ id < to
	uid      any   // nil for all
	// where selects by what, who and place, as SQL; empty for all. none: no record can match.
	where string
	none  bool
	// shapes has the shapes that contain the policies; nil for all.
	shapes map[int64]bool
}

// Page implements decision.Reader.
func (s *SQLite) Page(ctx context.Context, q *decision.Query, after string, limit int) (page decision.Page, err error) {
	page.Records = []decision.Record{}
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.Since.IsZero() {
		from = q.Since.UnixMicro()
	}
	if !q.Until.IsZero() {
		to = q.Until.UnixMicro()
	}
	if after != "" {
		id, err := strconv.ParseInt(after, 10, 64)
		switch {
		case err != nil || id == math.MaxInt64:
			return page, fmt.Errorf("%w: %q", decision.ErrPosition, after)
		case q.Oldest:
			from = max(from, id+1)
		default:
			to = min(to, id)
		}
	}
	tx, done, err := s.view(ctx)
	if err != nil {
		return page, err
	}
	defer func() { done(err) }()
	sel := &selection{from: from, to: to}
	if err := s.choose(ctx, tx, q, sel); err != nil || sel.none || from >= to || limit <= 0 {
		return page, err
	}
	r := &pageReader{store: s, tx: tx, sel: sel, limit: limit, until: time.Now().Add(s.search), page: &page, with: q.Requests && s.version > 1}
	switch {
	case sel.uid != nil:
		err = r.byUID(ctx, q.Oldest)
	case q.Oldest:
		err = r.forward(ctx)
	case sel.shapes != nil && len(sel.shapes) <= maxShapes:
		err = r.byShape(ctx)
	default:
		err = r.scan(ctx)
	}
	return page, err
}

// view begins a transaction for reading. done ends it; after a failure, the next view opens the file again.
func (s *SQLite) view(ctx context.Context) (tx *sql.Tx, done func(error), err error) {
	s.reading.RLock()
	if s.read == nil {
		s.reading.RUnlock()
		release, err := s.use(ctx)
		if err != nil {
			return nil, nil, err
		}
		err = s.beginReading(ctx)
		release()
		if err != nil {
			return nil, nil, err
		}
		if s.reading.RLock(); s.read == nil {
			s.reading.RUnlock()
			return nil, nil, errClosed
		}
	}
	db := s.read
	ended := func(err error) {
		s.reading.RUnlock()
		if broken(err) {
			s.endReading(db)
		}
	}
	if tx, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err != nil {
		ended(err)
		return nil, nil, err
	}
	return tx, func(err error) {
		_ = tx.Rollback() // it was only read
		ended(err)
	}, nil
}

// choose translates a query to ids.
func (s *SQLite) choose(ctx context.Context, tx *sql.Tx, q *decision.Query, sel *selection) error {
	var where []string
	in := func(column string, class int, orNone bool, take func(*decision.Record) bool) error {
		ids, err := s.terms(ctx, tx, class, take)
		if err != nil {
			return err
		}
		text := column + " IN (" + list(ids) + ")"
		if orNone {
			text = "(" + column + " IS NULL OR " + text + ")"
		} else if len(ids) == 0 {
			sel.none = true
		}
		where = append(where, text)
		return nil
	}
	if len(q.Kinds) > 0 || len(q.Verdicts) > 0 || q.Cluster != "" {
		if err := in("what", classWhat, false, func(r *decision.Record) bool {
			return decision.Among(q.Kinds, r.Kind) && (len(q.Verdicts) == 0 || slices.Contains(q.Verdicts, r.Verdict)) && (q.Cluster == "" || q.Cluster == r.Cluster)
		}); err != nil {
			return err
		}
	}
	if len(q.Users) > 0 {
		if err := in("who", classWho, decision.Among(q.Users, ""), func(r *decision.Record) bool { return decision.Among(q.Users, r.User) }); err != nil {
			return err
		}
	}
	if len(q.Namespaces) > 0 || q.Sees != nil {
		sees := func(ns string) bool { return decision.Among(q.Namespaces, ns) && (q.Sees == nil || q.Sees(ns)) }
		if err := in("place", classPlace, sees(""), func(r *decision.Record) bool { return sees(r.Namespace) }); err != nil {
			return err
		}
	}
	if len(q.Policies) > 0 {
		sel.shapes = map[int64]bool{}
		if err := s.shapes(ctx, tx, q.Policies, sel.shapes); err != nil {
			return err
		}
		sel.none = sel.none || len(sel.shapes) == 0
	}
	if q.UID != "" {
		sel.uid = q.UID
		if b := uuid(q.UID); b != nil {
			sel.uid = b
		}
	}
	sel.where = strings.Join(where, " AND ")
	return nil
}

// shapes adds the shapes of the policies that match the patterns.
func (s *SQLite) shapes(ctx context.Context, tx *sql.Tx, patterns []string, to map[int64]bool) (err error) {
	names, err := texts(ctx, tx, "SELECT DISTINCT policy FROM shape_policy")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !decision.Among(patterns, name) {
			continue
		}
		rows, err := tx.QueryContext(ctx, "SELECT shape FROM shape_policy WHERE policy = ?", name)
		if err != nil {
			return err
		}
		for rows.Next() {
			var id int64
			if err = rows.Scan(&id); err != nil {
				break
			}
			to[id] = true
		}
		if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
			return err
		}
	}
	return nil
}

// texts returns the texts that a query selects.
func texts(ctx context.Context, from querier, query string, args ...any) (out []string, err error) {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, rows.Err()
}

// Namespaces implements decision.Reader.
func (s *SQLite) Namespaces(ctx context.Context) (out []string, err error) {
	tx, done, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { done(err) }()
	_, err = s.terms(ctx, tx, classPlace, func(r *decision.Record) bool { out = append(out, r.Namespace); return false })
	slices.Sort(out)
	return out, err
}

// pageReader reads one page.
type pageReader struct {
	store *SQLite
	tx    *sql.Tx
	sel   *selection
	limit int
	until time.Time
	page  *decision.Page
	with  bool  // the records hold their requests
	bytes int64 // size of the texts and bodies so far
}

// full reports whether the page ends here; id is the id of the last record that was checked.
func (r *pageReader) full(id int64) bool {
	if len(r.page.Records) < r.limit && time.Now().Before(r.until) {
		return false
	}
	r.page.Next = strconv.FormatInt(id, 10)
	return true
}

// and returns the conditions of the selection as a suffix for other conditions.
func (r *pageReader) and() string {
	if r.sel.where == "" {
		return ""
	}
	return " AND " + r.sel.where
}

// byUID reads the records of one review, one hour of the store after another.
func (r *pageReader) byUID(ctx context.Context, oldest bool) error {
	var first, last sql.NullInt64
	if err := r.tx.QueryRowContext(ctx, "SELECT (SELECT min(id) FROM decision), (SELECT max(id) FROM decision)").Scan(&first, &last); err != nil || !first.Valid {
		return err
	}
	from, to := max(first.Int64, r.sel.from), min(last.Int64, r.sel.to-1)
	if from > to {
		return nil
	}
	prefix := r.sel.uid
	if b, ok := prefix.([]byte); ok {
		prefix = b[:4]
	} else if text, _ := prefix.(string); len(text) > 4 {
		prefix = string([]rune(text)[:min(4, len([]rune(text)))])
	}
	at, end, step, order := to/hour, from/hour, int64(-1), "DESC"
	if oldest {
		at, end, step, order = end, at, 1, "ASC"
	}
	for found := false; ; at += step {
		id, err := r.addRows(ctx, math.MinInt64, "SELECT "+columns+" FROM decision WHERE id / 3600000000 = ? AND substr(uid, 1, 4) = ? AND uid = ? AND id >= ? AND id < ?"+r.and()+" ORDER BY id "+order,
			at, prefix, r.sel.uid, r.sel.from, r.sel.to)
		switch {
		case err != nil:
			return err
		case len(r.page.Records) >= r.limit:
			r.page.Next = strconv.FormatInt(id, 10)
			return nil
		case found, at == end:
			return nil
		}
		// A review has one record, or one for each webhook within seconds: maybe some in the next hour.
		if found = len(r.page.Records) > 0; found {
			continue
		}
		next := at * hour
		if oldest {
			next += hour - 1
		}
		if r.full(next) {
			return nil
		}
	}
}

// scan reads all records of the period, the newest first.
func (r *pageReader) scan(ctx context.Context) error {
	to := r.sel.to
	for {
		var end sql.NullInt64
		err := r.tx.QueryRowContext(ctx, "SELECT id FROM decision WHERE id < ? AND id >= ? ORDER BY id DESC LIMIT 1 OFFSET ?", to, r.sel.from, pageScan).Scan(&end)
		last := errors.Is(err, sql.ErrNoRows)
		if err != nil && !last {
			return err
		}
		from := r.sel.from
		if !last {
			from = end.Int64
		}
		left := r.limit - len(r.page.Records)
		at, err := r.addRows(ctx, from, "SELECT "+columns+" FROM decision WHERE id < ? AND id >= ?"+r.and()+" ORDER BY id DESC", to, from)
		if err != nil {
			return err
		}
		if left > 0 && len(r.page.Records) == r.limit {
			r.page.Next = strconv.FormatInt(at, 10)
			return nil
		}
		if last || r.full(from) {
			return nil
		}
		to = from
	}
}

// forward reads all records of the period, the oldest first.
func (r *pageReader) forward(ctx context.Context) error {
	from, ahead := r.sel.from, r.limit
	for {
		var end sql.NullInt64
		err := r.tx.QueryRowContext(ctx, "SELECT id FROM decision WHERE id >= ? AND id < ? ORDER BY id LIMIT 1 OFFSET ?", from, r.sel.to, ahead).Scan(&end)
		last := errors.Is(err, sql.ErrNoRows)
		if err != nil && !last {
			return err
		}
		to := r.sel.to
		if !last {
			to = end.Int64
		}
		at, err := r.addRows(ctx, to-1, "SELECT "+columns+" FROM decision WHERE id >= ? AND id < ?"+r.and()+" ORDER BY id", from, to)
		if err != nil {
			return err
		}
		if len(r.page.Records) >= r.limit {
			r.page.Next = strconv.FormatInt(at, 10)
			return nil
		}
		if last || r.full(to-1) {
			return nil
		}
		from, ahead = to, min(2*ahead, pageScan)
	}
}

// addRows adds the records that a query selects, up to the limit. It returns the id of the last one, or end if the limit is not reached.
func (r *pageReader) addRows(ctx context.Context, end int64, query string, args ...any) (at int64, err error) {
	rows, err := r.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	found, at, err := r.rows(rows)
	if err != nil {
		return 0, err
	}
	records, ids := make([]decision.Record, len(found)), make([]int64, len(found))
	for i := range found {
		one, err := r.store.record(ctx, r.tx, &found[i])
		if err != nil {
			return 0, err
		}
		records[i], ids[i] = *one, found[i].id
		if r.bytes += textBytes(one); r.bytes > pageBytes { // the page ends here
			records, ids = records[:i+1], ids[:i+1]
			r.limit, at = len(r.page.Records)+i+1, found[i].id
			break
		}
	}
	if r.with && len(ids) > 0 {
		n, err := r.requests(ctx, records, ids)
		if err != nil {
			return 0, err
		}
		if n < len(ids) { // the page ends here
			records, r.limit, at = records[:n], len(r.page.Records)+n, ids[n-1]
		}
	}
	r.page.Records = append(r.page.Records, records...)
	if len(r.page.Records) < r.limit {
		return end, nil
	}
	return at, nil
}

// textBytes returns the length of the texts of a record that may be long.
func textBytes(r *decision.Record) int64 {
	n := len(r.Message)
	for i := range r.Rules {
		n += len(r.Rules[i].Message) + len(r.Rules[i].Path)
	}
	return int64(n)
}

// stored is a row of decision.
type stored struct {
	id, what                   int64
	uid                        any
	who, place, shape, texts   sql.NullInt64
	name                       sql.NullString
	took                       int64
	times, object, patch, rest []byte
}

// rows reads rows up to the limit, and closes them.
func (r *pageReader) rows(rows *sql.Rows) (out []stored, at int64, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for len(r.page.Records)+len(out) < r.limit && rows.Next() {
		var d stored
		if err := rows.Scan(&d.id, &d.uid, &d.what, &d.who, &d.place, &d.name, &d.shape, &d.texts, &d.took, &d.times, &d.object, &d.patch, &d.rest); err != nil {
			return nil, 0, err
		}
		at = d.id
		if r.sel.shapes != nil && !r.sel.shapes[d.shape.Int64] {
			continue
		}
		out = append(out, d)
	}
	return out, at, rows.Err()
}

// record returns the record of a row.
func (s *SQLite) record(ctx context.Context, tx *sql.Tx, d *stored) (*decision.Record, error) {
	r := &decision.Record{}
	if err := r.MergeProto(d.rest); err != nil {
		return nil, err
	}
	what, err := s.part(ctx, tx, sql.NullInt64{Int64: d.what, Valid: true})
	if err != nil {
		return nil, err
	}
	r.Schema, r.Webhook, r.Operation, r.Group, r.Version, r.Kind, r.Subresource = what.Schema, what.Webhook, what.Operation, what.Group, what.Version, what.Kind, what.Subresource
	r.DryRun, r.Cluster, r.Verdict, r.Allowed, r.Share, r.Policies = what.DryRun, what.Cluster, what.Verdict, what.Allowed, what.Share, what.Policies
	who, err := s.part(ctx, tx, d.who)
	if err != nil {
		return nil, err
	}
	r.User, r.Groups = who.User, slices.Clone(who.Groups)
	place, err := s.part(ctx, tx, d.place)
	if err != nil {
		return nil, err
	}
	r.Namespace, r.Name = place.Namespace, d.name.String
	shape, err := s.part(ctx, tx, d.shape)
	if err != nil {
		return nil, err
	}
	r.Rules = slices.Clone(shape.Rules)
	texts, err := s.part(ctx, tx, d.texts)
	if err != nil {
		return nil, err
	}
	join(r, texts, d.times)
	switch uid := d.uid.(type) {
	case string:
		r.UID = uid
	case []byte:
		r.UID = uuidText(uid)
	}
	r.Time, r.Duration = time.UnixMicro(d.id).UTC(), time.Duration(d.took)*time.Microsecond
	r.Object, r.Patch = hex.EncodeToString(d.object), hex.EncodeToString(d.patch)
	return r, nil
}

// part returns the part of a record that a term holds; an empty one if there is no term.
func (s *SQLite) part(ctx context.Context, tx *sql.Tx, id sql.NullInt64) (*decision.Record, error) {
	if !id.Valid {
		return &decision.Record{}, nil
	}
	if r := s.remembered(id.Int64); r != nil {
		return r, nil
	}
	var value []byte
	err := tx.QueryRowContext(ctx, "SELECT value FROM term WHERE id = ?", id.Int64).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) { // it is being erased
		return &decision.Record{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("a part of a record: %w", err)
	}
	r := &decision.Record{}
	if err := r.MergeProto(value); err != nil {
		return nil, err
	}
	s.remember(id.Int64, r, len(value))
	return r, nil
}

// stream has the ids of one shape, the newest first.
type stream struct {
	shape int64
	ids   []int64
}

// streams is a heap of streams, ordered by their next ids.
type streams []*stream

func (s streams) Len() int           { return len(s) }
func (s streams) Less(i, j int) bool { return s[i].ids[0] > s[j].ids[0] }
func (s streams) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *streams) Push(x any)        { *s = append(*s, x.(*stream)) }
func (s *streams) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

// byShape reads the records of some shapes. It merges the ids of the shapes, each of which is in order.
func (r *pageReader) byShape(ctx context.Context) error {
	next, err := r.tx.PrepareContext(ctx, "SELECT id FROM decision WHERE shape = ? AND id < ? AND id >= ? ORDER BY id DESC LIMIT ?")
	if err != nil {
		return err
	}
	defer func() { _ = next.Close() }()
	var all streams
	for shape := range r.sel.shapes {
		one := &stream{shape: shape}
		if err := r.fill(ctx, next, one, r.sel.to); err != nil {
			return err
		}
		if len(one.ids) > 0 {
			all = append(all, one)
		}
	}
	heap.Init(&all)
	for len(all) > 0 {
		// Read the next ids together, at most one page.
		var ids []int64
		for len(all) > 0 && len(ids) < min(1000, max(r.limit-len(r.page.Records), 100)) {
			one := all[0]
			id := one.ids[0]
			ids = append(ids, id)
			if one.ids = one.ids[1:]; len(one.ids) == 0 {
				if err := r.fill(ctx, next, one, id); err != nil {
					return err
				}
			}
			if len(one.ids) == 0 {
				heap.Pop(&all)
			} else {
				heap.Fix(&all, 0)
			}
		}
		at, err := r.addRows(ctx, ids[len(ids)-1], "SELECT "+columns+" FROM decision WHERE id IN ("+list(ids)+")"+r.and()+" ORDER BY id DESC")
		if err != nil {
			return err
		}
		if r.full(at) {
			if len(all) == 0 && at == ids[len(ids)-1] {
				r.page.Next = "" // it was the last record
			}
			return nil
		}
	}
	return nil
}

// fill reads the next ids of a shape, before an id.
func (r *pageReader) fill(ctx context.Context, next *sql.Stmt, one *stream, before int64) (err error) {
	rows, err := next.QueryContext(ctx, one.shape, before, r.sel.from, ahead)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	one.ids = one.ids[:0]
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		one.ids = append(one.ids, id)
	}
	return rows.Err()
}
