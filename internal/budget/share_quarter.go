//go:build quarter

package budget

// Share divides all limits.
const Share = 4
