package innodb

// Held is how many bytes of cut pages c holds.
func (c *Checker) Held() int { return c.mem.held }

// SetLimit bounds them.
func (c *Checker) SetLimit(n int) { c.mem.limit = n }

// LetterPairs is the server's table: characters by their two letters.
func LetterPairs() map[string]rune {
	all := map[string]rune{}
	for _, block := range letterBlocks() {
		for i := 0; i < len(block.pairs); i += 2 {
			if pair := block.pairs[i : i+2]; pair != "  " {
				all[pair] = block.first + rune(i/2)
			}
		}
	}
	return all
}
