package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
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

// columns are the columns of a decision: those with the id of a term are next to each other.
const columns = "id, uid, what, who, place, shape, texts, name, took, times, object, patch, rest"

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
	r := &pageReader{store: s, tx: tx, sel: sel, oldest: q.Oldest, order: " ORDER BY id DESC", limit: limit, until: time.Now().Add(s.search), page: &page, with: q.Requests && s.version > 1}
	if q.Oldest {
		r.order = " ORDER BY id"
	}
	switch {
	case sel.uid != nil:
		err = r.byUID(ctx)
	case sel.shapes != nil && len(sel.shapes) <= maxShapes && !q.Oldest:
		err = r.byShape(ctx)
	default:
		err = r.scan(ctx)
	}
	return page, err
}

// view begins a transaction for reading, in the file that is at the path now. done ends it; after a failure, the next view opens the file again.
func (s *SQLite) view(ctx context.Context) (tx *sql.Tx, done func(error), err error) {
	s.reading.RLock()
	if db := s.read; db != nil {
		if now, err := os.Stat(s.path); err == nil && !os.SameFile(now, s.readFile) {
			s.reading.RUnlock()
			s.endReading(db)
			s.reading.RLock()
		}
	}
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
	for _, x := range []struct {
		some   bool // the query selects by the column
		column string
		class  int
		of     decision.Query // the conditions for the column
	}{
		{len(q.Kinds) > 0 || len(q.Verdicts) > 0 || q.Cluster != "", "what", classWhat, decision.Query{Kinds: q.Kinds, Verdicts: q.Verdicts, Cluster: q.Cluster}},
		{len(q.Users) > 0, "who", classWho, decision.Query{Users: q.Users}},
		{len(q.Namespaces) > 0 || q.Sees != nil, "place", classPlace, decision.Query{Namespaces: q.Namespaces, Sees: q.Sees}},
	} {
		if !x.some {
			continue
		}
		ids, err := s.terms(ctx, tx, x.class, x.of.Selects)
		if err != nil {
			return err
		}
		text := x.column + " IN (" + list(ids) + ")"
		if x.of.Selects(&decision.Record{}) { // no term stands for an empty part
			text = "(" + x.column + " IS NULL OR " + text + ")"
		} else if len(ids) == 0 {
			sel.none = true
		}
		where = append(where, text)
	}
	if len(q.Policies) > 0 {
		sel.shapes = map[int64]bool{}
		if err := s.shapes(ctx, tx, q.Policies, sel.shapes); err != nil {
			return err
		}
		sel.none = sel.none || len(sel.shapes) == 0
	}
	if q.UID != "" {
		sel.uid = uidColumn(q.UID)
	}
	sel.where = strings.Join(where, " AND ")
	return nil
}

// shapes adds the shapes of the policies that match the patterns.
func (s *SQLite) shapes(ctx context.Context, tx *sql.Tx, patterns []string, to map[int64]bool) error {
	names, err := column[string](ctx, tx, "SELECT DISTINCT policy FROM shape_policy")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !decision.Among(patterns, name) {
			continue
		}
		ids, err := column[int64](ctx, tx, "SELECT shape FROM shape_policy WHERE policy = ?", name)
		if err != nil {
			return err
		}
		for _, id := range ids {
			to[id] = true
		}
	}
	return nil
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
	// oldest: the oldest record comes first. order is the clause for it.
	oldest bool
	order  string
	limit  int
	until  time.Time
	page   *decision.Page
	with   bool  // the records hold their requests
	bytes  int64 // size of the texts and bodies so far
}

// full reports whether the page ends here; id is the id of the last record that was checked.
func (r *pageReader) full(id int64) bool {
	if len(r.page.Records) < r.limit && time.Now().Before(r.until) {
		return false
	}
	r.page.Next = strconv.FormatInt(id, 10)
	return true
}

// byUID reads the records of one review, one hour of the store after another.
func (r *pageReader) byUID(ctx context.Context) error {
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
	at, end, step := to/hour, from/hour, int64(-1)
	if r.oldest {
		at, end, step = end, at, 1
	}
	for found := false; ; at += step {
		id, err := r.addRows(ctx, math.MinInt64, "id / 3600000000 = ? AND substr(uid, 1, 4) = ? AND uid = ? AND id >= ? AND id < ?", at, prefix, r.sel.uid, r.sel.from, r.sel.to)
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
		if r.oldest {
			next += hour - 1
		}
		if r.full(next) {
			return nil
		}
	}
}

// scan reads the records of the period in windows, which grow from the length of a page.
func (r *pageReader) scan(ctx context.Context) error {
	from, to := r.sel.from, r.sel.to
	for n := r.limit; ; n = min(2*n, pageScan) {
		edge, more, err := number(ctx, r.tx, "SELECT id FROM decision WHERE id >= ? AND id < ?"+r.order+" LIMIT 1 OFFSET ?", from, to, n)
		if err != nil {
			return err
		}
		first, past := from, to // the window
		switch {
		case more && r.oldest:
			past = edge
		case more:
			first = edge
		}
		end := first // the last id in the order of the search
		if r.oldest {
			end = past - 1
		}
		at, err := r.addRows(ctx, end, "id >= ? AND id < ?", first, past)
		if err != nil {
			return err
		}
		if len(r.page.Records) >= r.limit {
			r.page.Next = strconv.FormatInt(at, 10)
			return nil
		}
		if !more || r.full(end) {
			return nil
		}
		if r.oldest {
			from = past
		} else {
			to = first
		}
	}
}

// addRows adds the records for which a condition and those of the selection hold, up to the limit. It returns the id of the last one, or end if the
// limit is not reached.
func (r *pageReader) addRows(ctx context.Context, end int64, where string, args ...any) (at int64, err error) {
	if r.sel.where != "" {
		where += " AND " + r.sel.where
	}
	var found []stored
	err = each(ctx, r.tx, func(rows *sql.Rows) (bool, error) {
		var d stored
		to := []any{&d.id, &d.uid}
		for column := range d.terms {
			to = append(to, &d.terms[column])
		}
		if err := rows.Scan(append(to, &d.name, &d.took, &d.times, &d.object, &d.patch, &d.rest)...); err != nil {
			return false, err
		}
		if at = d.id; r.sel.shapes == nil || r.sel.shapes[d.terms[shapeColumn].Int64] {
			found = append(found, d)
		}
		return len(r.page.Records)+len(found) < r.limit, nil
	}, "SELECT "+columns+" FROM decision WHERE "+where+r.order, args...)
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
	id                         int64
	uid                        any
	terms                      [len(classes)]sql.NullInt64
	name                       sql.NullString
	took                       int64
	times, object, patch, rest []byte
}

// record returns the record of a row.
func (s *SQLite) record(ctx context.Context, tx *sql.Tx, d *stored) (*decision.Record, error) {
	r := &decision.Record{}
	if err := r.MergeProto(d.rest); err != nil {
		return nil, err
	}
	var texts *decision.Record
	for column, id := range d.terms {
		part, err := s.part(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		if copyFields(r, part, fieldsOf[column]); column == textsColumn {
			texts = part
		}
	}
	r.Name, r.Groups, r.Rules = d.name.String, slices.Clone(r.Groups), slices.Clone(r.Rules)
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

// stream has the next ids of one shape, the newest first.
type stream struct {
	shape int64
	ids   []int64
}

// fill reads the next ids of a shape, before an id.
func (r *pageReader) fill(ctx context.Context, one *stream, before int64) (err error) {
	one.ids, err = column[int64](ctx, r.tx, "SELECT id FROM decision WHERE shape = ? AND id < ? AND id >= ? ORDER BY id DESC LIMIT ?", one.shape, before, r.sel.from, ahead)
	return err
}

// byShape reads the records of some shapes. It merges the ids of the shapes, each of which is in order.
func (r *pageReader) byShape(ctx context.Context) error {
	var all []*stream
	for shape := range r.sel.shapes {
		one := &stream{shape: shape}
		if err := r.fill(ctx, one, r.sel.to); err != nil {
			return err
		}
		all = append(all, one)
	}
	ended := func(s *stream) bool { return len(s.ids) == 0 }
	for all = slices.DeleteFunc(all, ended); len(all) > 0; {
		// Read the next ids together, at most one page.
		var ids []int64
		for len(all) > 0 && len(ids) < min(1000, max(r.limit-len(r.page.Records), 100)) {
			one := slices.MaxFunc(all, func(a, b *stream) int { return cmp.Compare(a.ids[0], b.ids[0]) })
			id := one.ids[0]
			ids = append(ids, id)
			if one.ids = one.ids[1:]; len(one.ids) == 0 {
				if err := r.fill(ctx, one, id); err != nil {
					return err
				}
				all = slices.DeleteFunc(all, ended)
			}
		}
		at, err := r.addRows(ctx, ids[len(ids)-1], "id IN ("+list(ids)+")")
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
