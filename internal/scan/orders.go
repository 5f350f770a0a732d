package scan

func (l *loop) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// maxOrders bounds the number of waiting requests; if there are more, all objects are checked.
const maxOrders = 10_000

func (l *loop) again(p pending) {
	l.mu.Lock()
	if len(l.orders) < maxOrders {
		l.orders = append(l.orders, p)
	} else {
		l.surplus = true
	}
	l.mu.Unlock()
	l.poke()
}

// taken returns the waiting requests, and whether there were too many, so that all objects are checked.
func (l *loop) taken() (orders []pending, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	orders, all = l.orders, l.surplus
	l.orders, l.surplus = nil, false
	return orders, all
}
