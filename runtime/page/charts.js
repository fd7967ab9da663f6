// The figures at the top, and a chart of the last hour under each that has one. What a chart shows is also in words.

import { element, hide, keyed, setText, setTexts } from "./lists.js";

const WIDTH = 400;
const HEIGHT = 72;
const NEAR_LIMIT = 0.2; // From this part of its limit on, a chart reaches up to the limit.
const SPACE = "http://www.w3.org/2000/svg";

function shape(name, kind) {
  const made = document.createElementNS(SPACE, name);
  made.setAttribute("class", kind);
  return made;
}

export class Charts {
  constructor(list) {
    this.list = list;
    this.began = null;
    this.samples = [];
  }

  // The number of the last sample that is known; 0 for none.
  get last() {
    return this.samples.at(-1)?.number ?? 0;
  }

  show(said) {
    this.#learn(said);
    const places = new Map(said.history.charts.map((chart, place) => [chart.name, place]));
    keyed(this.list, said.figures, (figure) => figure.name, () => this.#card(), (card, figure) => {
      const [label, value, notes, share, chart] = card.children;
      setText(label, figure.label);
      setText(value, figure.value);
      value.classList.toggle("unknown", figure.value === "unknown");
      setTexts(notes, figure.notes);
      hide(share, !figure.limit);
      if (figure.limit) {
        share.children[0].value = figure.limit.percent;
        setText(share.children[1], figure.limit.share);
      }
      const place = places.get(figure.name);
      hide(chart, place === undefined);
      if (place !== undefined) this.#draw(chart, figure, said.history, place);
    });
  }

  // Another process has other samples, whose numbers begin again.
  #learn(said) {
    if (this.began !== said.began) {
      const first = this.began === null;
      this.began = said.began;
      this.samples = first ? said.history.samples : [];
      return;
    }
    this.samples.push(...said.history.samples.filter((sample) => sample.number > this.last));
    const gone = this.samples.findIndex((sample) => sample.number >= said.history.first);
    if (gone > 0) this.samples.splice(0, gone);
  }

  #card() {
    const card = element("article", "card");
    const share = element("p", "share");
    const bar = element("progress");
    bar.max = 100;
    bar.setAttribute("aria-label", "Part of its limit that is retained");
    share.append(bar, element("span", "quiet"));
    const chart = element("figure");
    const drawing = shape("svg", "drawing");
    drawing.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    drawing.setAttribute("preserveAspectRatio", "none");
    drawing.setAttribute("role", "img");
    drawing.append(...["area", "limit", "line", "cross", "dot"].map((kind) => shape("path", kind)));
    const caption = element("figcaption", "quiet");
    caption.append(element("span"), element("span"), element("span"));
    chart.append(drawing, caption);
    card.append(element("h3"), element("p", "value"), element("ul", "notes quiet"), share, chart);
    drawing.addEventListener("pointermove", (event) => {
      const box = drawing.getBoundingClientRect();
      chart.pointed = (event.clientX - box.left) / box.width;
      chart.draw();
    });
    drawing.addEventListener("pointerleave", () => {
      chart.pointed = undefined;
      chart.draw();
    });
    return card;
  }

  #draw(chart, figure, history, place) {
    const words = history.charts[place];
    chart.draw = () => {
      const [drawing, caption] = chart.children;
      const picture = new Picture(this.samples, place, figure.limit?.value);
      picture.into(drawing, chart.pointed);
      const pointed = chart.pointed === undefined ? null : picture.nearest(chart.pointed);
      const range = words.highest === "unknown" ? "unknown all the time" : `${words.lowest} to ${words.highest}`;
      const texts = pointed
        ? [new Date(pointed.time * 1000).toLocaleTimeString(), pointed.words[place], ""]
        : this.samples.length ? [`${history.span} ago`, range, "now"] : ["no figures of the time before yet", "", ""];
      texts.forEach((text, number) => setText(caption.children[number], text));
      drawing.setAttribute(
        "aria-label",
        `${figure.label}, the last ${history.span}: now ${words.last}, lowest ${words.lowest}, highest ${words.highest}`,
      );
    };
    chart.draw();
  }
}

class Picture {
  constructor(samples, place, limit) {
    this.samples = samples;
    this.place = place;
    const highest = Math.max(0, ...samples.map((sample) => sample.values[place] ?? 0));
    this.limit = limit && highest >= NEAR_LIMIT * limit ? limit : null;
    this.top = 1.12 * Math.max(highest, this.limit ?? 0) || 1;
    this.from = samples[0]?.time ?? 0;
    this.span = (samples.at(-1)?.time ?? 0) - this.from || 1;
  }

  x(sample) {
    return (WIDTH * (sample.time - this.from)) / this.span;
  }

  y(value) {
    return HEIGHT - 2 - ((HEIGHT - 4) * value) / this.top;
  }

  nearest(part) {
    const time = this.from + part * this.span;
    const far = (sample) => Math.abs(sample.time - time);
    return this.samples.reduce((found, sample) => (found && far(found) <= far(sample) ? found : sample), null);
  }

  // What was unknown is a gap, and not a line at zero.
  runs() {
    const found = [];
    let run = null;
    for (const sample of this.samples) {
      const value = sample.values[this.place];
      if (value === null) {
        run = null;
      } else {
        if (!run) found.push((run = []));
        run.push(`${this.x(sample).toFixed(1)} ${this.y(value).toFixed(1)}`);
      }
    }
    return found;
  }

  into(drawing, pointed) {
    const [area, limit, line, cross, dot] = drawing.children;
    const runs = this.runs();
    const from = (point) => point.split(" ")[0];
    line.setAttribute("d", runs.map((run) => `M${run.join("L")}`).join(""));
    area.setAttribute(
      "d", runs.map((run) => `M${from(run[0])} ${HEIGHT}L${run.join("L")}L${from(run.at(-1))} ${HEIGHT}Z`).join(""),
    );
    limit.setAttribute("d", this.limit ? `M0 ${this.y(this.limit).toFixed(1)}H${WIDTH}` : "");
    const shown = pointed === undefined ? this.samples.at(-1) : this.nearest(pointed);
    const value = shown?.values[this.place] ?? null;
    cross.setAttribute("d", pointed !== undefined && shown ? `M${this.x(shown).toFixed(1)} 0V${HEIGHT}` : "");
    dot.setAttribute("d", value === null ? "" : `M${this.x(shown).toFixed(1)} ${this.y(value).toFixed(1)}h0`);
  }
}
