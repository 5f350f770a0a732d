package budget

import (
	"context"
	"errors"
	"testing"
)

func TestMeter(t *testing.T) {
	m := New(context.Background(), 10, 100)
	if err := m.Step(10); err != nil {
		t.Fatal(err)
	}
	if err := m.Step(1); !errors.Is(err, ErrExhausted) {
		t.Errorf("the eleventh of ten steps: %v", err)
	}
	if err := m.Bytes(101); !errors.Is(err, ErrExhausted) {
		t.Errorf("101 of 100 bytes: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m.Reset(ctx, 1<<40, 1<<40)
	var err error
	steps := 0
	for ; err == nil && steps < 5000; steps++ {
		err = m.Step(1)
	}
	if !errors.Is(err, context.Canceled) || steps > 1024 {
		t.Errorf("after %d steps: %v; the context is looked at every 1,024 steps", steps, err)
	}
	var none *Meter
	if none.Step(1<<30) != nil || none.Bytes(1<<30) != nil || none.Context() == nil {
		t.Error("the nil Meter is unlimited")
	}
}
