package board

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// The second style was written before anybody had seen how it compresses,
// and not to make a point: a table without classes, whose rows differ in
// more than two words. Its sizes are the first style's within a few percent;
// nothing else was tuned.
var semanticPage = page{
	head: func(room string, revision int) []byte {
		return fmt.Appendf(nil, `<section id="board" aria-labelledby="title" data-revision="%d"><h2 id="title">Order lines in %s</h2><table><caption>Prices in euros, without tax. Times are UTC.</caption><thead><tr><th scope="col">Article</th><th scope="col">Quantity</th><th scope="col">Unit price</th><th scope="col">Changed</th><th scope="col">Remark</th></tr></thead><tbody>`, revision, room)
	},
	foot: `</tbody></table></section>`,
	row: func(r *rand.Rand) row {
		s := &semanticRow{
			article: fmt.Sprintf("%c%c-%05d", 'A'+r.IntN(26), 'A'+r.IntN(26), r.IntN(100_000)),
			name:    pick(r, semanticFinishes) + " " + pick(r, semanticGoods),
			cents:   195 + r.IntN(24_000),
		}
		s.change(r, fmt.Sprintf("%08x", r.Uint32()), 0)
		s.changed = s.changed.Add(-time.Duration(r.IntN(14*24*3600)) * time.Second)
		return s
	},
	log: [2]string{`<section id="chat" aria-live="polite">`, `</section>`},
	message: func(dst []byte, id int, author, text string) []byte {
		at := semanticStart.Add(time.Duration(id) * 41 * time.Second)
		return fmt.Appendf(dst, `<p id="said-%d"><cite>%s</cite> <time>%s</time> %s</p>`, id, author, at.Format("2006-01-02T15:04Z"), text)
	},
	line: func(r *rand.Rand) (author, text string) {
		text = fmt.Sprintf("%s %s × %d: %s", pick(r, semanticFinishes), pick(r, semanticGoods), 1+r.IntN(400), pick(r, semanticRemarks))
		return pick(r, semanticPeople), text
	},
}

// semanticStart is the time of a board's first command.
var semanticStart = time.Date(2026, time.March, 14, 8, 30, 0, 0, time.UTC)

var (
	semanticFinishes = list(`Oiled oak, Pale walnut, Powder-coated, Brushed steel, Recycled, Hand-woven, Double-glazed, Lacquered,
		Waxed pine, Galvanised, Frosted, Ribbed, Quilted, Untreated, Weatherproof, Smoked, Enamelled, Stackable`)
	semanticGoods = list(`shelf board 120 cm, bedside table, coat rack with 6 hooks, floor lamp, garden bench, desk with two drawers,
		wall clock, storage box with lid, door handle set, ceiling lamp, plant stand, kitchen stool, linen curtain,
		picture frame 50 x 70, letter box, umbrella stand, wash basin, tea trolley, mirror, window sill, folding screen`)
	semanticRemarks = list(`carrier asked for a second pallet, customer collects on Friday, waiting for the blue ones,
		one corner was dented and is replaced, packed and weighed, address confirmed by phone, leave with the neighbour,
		invoice goes to head office, part of a larger delivery, counted twice, supplier promises Tuesday,
		gift wrapping, no call before ten, goods lift is out of order, returned once and checked, nothing to add`)
	semanticPeople = list(`Margarethe, Olu, Jean-Luc, Priya, Tomasz, Ingrid, Kwame, Sofia, Mehmet, Aoife, Hiroshi, Beatriz`)
)

// list splits at commas, which no entry has.
func list(s string) []string {
	entries := strings.Split(s, ",")
	for i, e := range entries {
		entries[i] = strings.Join(strings.Fields(e), " ")
	}
	return entries
}

type semanticRow struct {
	article, name string
	cents         int // of one; does not change
	revision      int
	quantity      int
	changed       time.Time
	by, remark    string
	nonce         string
}

func (s *semanticRow) change(r *rand.Rand, nonce string, revision int) {
	s.revision = revision
	s.quantity = 1 + r.IntN(240)
	s.changed = semanticStart.Add(time.Duration(97*revision+r.IntN(97)) * time.Second)
	s.by, s.remark = pick(r, semanticPeople), pick(r, semanticRemarks)
	s.nonce = nonce
}

func (s *semanticRow) html(room string, i int) []byte {
	return fmt.Appendf(nil, `<tr id="order-line-%d" data-nonce="%s" data-revision="%d"><th scope="row"><a href="/rooms/%s/articles/%s">%s</a></th><td><data value="%d">%d pcs</data></td><td><data value="%d.%02d">€ %d.%02d</data></td><td><time datetime="%s">%s</time> by <cite>%s</cite></td><td><p>%s</p><form method="post" action="/rooms/%s/lines/%d"><button name="step" value="next">Move to the next step</button></form></td></tr>`,
		i, s.nonce, s.revision, room, s.article, s.name, s.quantity, s.quantity, s.cents/100, s.cents%100, s.cents/100, s.cents%100,
		s.changed.Format(time.RFC3339), s.changed.Format("2 January, 15:04"), s.by, s.remark, room, i)
}
