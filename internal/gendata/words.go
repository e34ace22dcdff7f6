package gendata

import "strings"

// words are the vocabulary of the business rows.
type words struct {
	first, last, street, way, city, state, noun, quality, verb, note, credit []string
}

// newWords returns the vocabulary. It never changes: bytes made from a seed depend on every word and its place.
func newWords() *words {
	return &words{
		first: strings.Fields(`Anna Ben Clara David Elena Felix Greta Hannes Ida Jonas Karin Lars Maria Niklas Olga Paul
			Rosa Simon Tanja Ulrich Vera Walter Yara Zoran Aisha Boris Chiara Dmitri Esra Farid Giulia Hugo Ines Jakub
			Kemal Lucia Mehmet Nadia Oskar Petra Quentin Renata Stefan Teresa Umut Viktor Wiebke Xenia Yusuf Zofia`),
		last: strings.Fields(`Andersson Bauer Costa Dubois Eriksen Fischer Garcia Hoffmann Ivanov Jansen Kowalski Lindberg
			Moreau Novak Olsen Pereira Quist Rossi Schmidt Torres Ulrich Virtanen Weber Xu Yilmaz Zimmermann Becker
			Carlsen Dietrich Engel Ferrari Gruber Hansen Iversen Johnson Keller Lehmann Martin Nielsen Ortega Peters
			Richter Silva Thomsen Vogel Wagner Young Ziegler Brandt Christensen Fontaine Hernandez Lopez Meyer`),
		street: strings.Fields(`Station Church Mill Garden Harbour Market Forest School Castle River Bridge Linden Birch Rose
			Meadow Hill North South Lake Park Chapel Orchard Victoria Albert Foundry Brewery Quarry Abbey Tannery Poplar`),
		way: strings.Fields(`Street Road Lane Avenue Square Row Close Gate Walk Yard`),
		city: strings.Fields(`Aarhus Bergen Cordoba Dresden Edinburgh Florence Gdansk Hamburg Innsbruck Jena Krakow Lyon Malmo
			Nantes Oslo Porto Quimper Rostock Sevilla Tampere Utrecht Valencia Warsaw Ypres Zagreb Antwerp Basel Cork`),
		state: strings.Fields(`BE BY HE NW SN TH AL AR CO IA ME NY OR PA TX VT WA`),
		noun: strings.Fields(`kettle lamp chair drill bottle blanket notebook cable bracket filter bearing pump valve jacket
			backpack bicycle mirror curtain shelf ladder hammer saw brush bucket hose gasket switch sensor motor battery
			charger adapter monitor keyboard printer scanner router antenna tripod lens helmet glove boot tent stove`),
		quality: strings.Fields(`small large steel copper wooden blue red green black white heavy light folding portable
			electric manual industrial cordless waterproof stackable adjustable spare refurbished premium standard`),
		verb: strings.Fields(`called wrote asked confirmed returned ordered paid cancelled moved received accepted declined`),
		note: strings.Fields(`the customer about delivery of an order to the new address and was told that it will arrive on
			time with invoice payment reminder sent by mail account limit raised after review no complaint since then
			prefers phone contact in morning hours discount agreed for next quarter please check stock before promise`),
		credit: strings.Fields(`GC GC GC GC GC GC GC GC GC BC`),
	}
}

// appendText appends words of a note until it has at least n bytes; the result is shorter than n + 12.
func (w *words) appendText(dst []byte, r *random, n int) []byte {
	from := len(dst)
	dst = append(dst, w.verb[r.skewed(len(w.verb))]...)
	for len(dst)-from < n {
		dst = append(dst, ' ')
		// Runs of neighbouring words, so that texts share phrases as those of people do.
		at := r.below(len(w.note))
		for range r.between(2, 6) {
			dst = append(dst, w.note[at%len(w.note)]...)
			dst = append(dst, ' ')
			at++
		}
		dst = dst[:len(dst)-1]
	}
	return dst[:from+min(len(dst)-from, n)]
}
