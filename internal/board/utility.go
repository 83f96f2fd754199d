package board

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The first style is that of the prototype with which room encoders were
// tried, its markup and words unchanged, so that results can be compared.
var utilityPage = page{
	head: func(room string, revision int) []byte {
		return fmt.Appendf(nil, `<main id="board" class="mx-auto max-w-4xl" data-room="%s" data-seq="%d"><h1 class="text-xl">Room %s</h1><ul id="rows" role="list">`, room, revision, room)
	},
	foot: `</ul></main>`,
	row: func(r *rand.Rand) row {
		return &utilityRow{state: pick(r, utilityStates), owner: pick(r, utilityPeople), text: phrase(r, utilityWords, 2), nonce: "00000000"}
	},
	log: [2]string{`<ol id="log" class="chat-log">`, `</ol>`},
	message: func(dst []byte, id int, author, text string) []byte {
		return fmt.Appendf(dst, `<li id="m%d" class="msg"><b>%s</b><time>%02d:%02d:%02d</time><p>%s</p></li>`, id, author, (9+id/3600)%24, id/60%60, id%60, text)
	},
	line: func(r *rand.Rand) (author, text string) {
		text = phrase(r, utilityWords, 4+r.IntN(9))
		return pick(r, utilityPeople), fmt.Sprintf("%s #%04x", text, r.IntN(1<<16))
	},
}

var (
	utilityWords = strings.Fields(`order ship pack pick review block merge deploy draft urgent hold ready batch stock
		label route queue check count store client north south depot truck crate shelf audit retry split scan print`)
	utilityStates = []string{"todo", "doing", "review", "done"}
	utilityPeople = []string{"ana", "bo", "chen", "dara", "eli", "fay", "gus", "hana"}
)

type utilityRow struct {
	version                   int
	state, owner, text, nonce string
}

func (u *utilityRow) change(r *rand.Rand, nonce string, _ int) {
	u.version++
	u.text = phrase(r, utilityWords, 2)
	u.nonce = nonce
}

func (u *utilityRow) html(room string, i int) []byte {
	return fmt.Appendf(nil, `<li id="row-%d" class="row flex items-center gap-2 px-3 py-2 border-b border-slate-200 hover:bg-slate-50" data-v="%d" data-state="%s" data-nonce="%s"><span class="badge badge-%s rounded-full text-xs font-medium">%s</span><span class="grow truncate text-sm text-slate-800">%s</span><span class="owner text-xs text-slate-500">@%s</span><button class="btn btn-xs btn-ghost" data-on:click="@post('/rooms/%s/rows/%d/advance')" aria-label="Advance row %d">Advance</button></li>`,
		i, u.version, u.state, u.nonce, u.state, u.state, u.text, u.owner, room, i, i)
}
