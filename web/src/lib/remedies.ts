// From a forecast to statements that would make broken promises hold. Pure.

export interface ForecastPromise {
  query: string;
  measure: string;
  strictness: string;
  promised: number; // seconds, bytes or results per second
  predicted: number | null; // null: it grows without end
  holds: boolean;
  speed: number | null;
  shed: number | null;
  tolerated: number | null;
  best: number | null;
}
export interface Forecast {
  utilisation: number;
  round: number;
  bottleneck: string | null;
  streams: Record<string, number>;
  queries: { query: string; latency: number; memory: number; throughput: number; bottleneck: string | null; growth: number }[];
  promises: ForecastPromise[];
}
export interface Remedy {
  title: string;
  sentence: string;
  statement?: string;
}

export function remedies(query: string, forecast: Forecast, quoted: (name: string) => string): Remedy[] {
  const found: Remedy[] = [];
  for (const promise of forecast.promises) {
    if (promise.query !== query || promise.holds) continue;
    const { measure, speed, shed, tolerated } = promise;
    if (shed !== null && shed > (tolerated ?? 0)) {
      const error = Math.min(0.95, Math.ceil(shed * 100 + 1) / 100);
      const now = tolerated ? `only ${Math.round(tolerated * 100)} %` : "nothing";
      found.push({
        title: `Let ${query} lose up to ${Math.round(error * 100)} % of its tuples`,
        sentence: `Shed ${Math.round(shed * 100)} % of its tuples; ${now} may be lost today.`,
        statement: `ALTER QUERY ${quoted(query)} SET (error ${error});`,
      });
    } else if (shed !== null && shed > 0) {
      found.push({ title: "", sentence: `Shedding ${Math.round(shed * 100)} % of its tuples makes ${measure} hold; the controller may do that by itself.` });
    }
    if (speed !== null && speed > 1) {
      found.push({ title: "", sentence: `A processor ${speed.toFixed(speed < 10 ? 1 : 0)} times as fast, or so many times the cores (headrace rescale), makes ${measure} hold.` });
    }
    if (promise.predicted !== null && promise.predicted > 0) {
      const value = relaxed(measure, promise.predicted);
      found.push({
        title: `Promise less ${measure === "throughput" ? "throughput" : `strict ${measure}`} for ${query}`,
        sentence: `Promise what it can keep: ${value}.`,
        statement: `ALTER QUERY ${quoted(query)} SET (${measure} '${value}' ${promise.strictness});`,
      });
    } else {
      found.push({ title: "", sentence: `No ${measure} can be promised at this load: the queue in front of its bottleneck grows without end.` });
    }
  }
  return found;
}

function relaxed(measure: string, predicted: number): string {
  if (measure === "throughput") return `${Math.max(1, Math.floor(predicted * 0.8))}/s`;
  if (measure === "memory") return `${Math.ceil((predicted * 1.25) / 2 ** 20)} MB`;
  const ms = predicted * 1250;
  return ms > 2000 ? `${Math.ceil(ms / 1000)} s` : `${Math.ceil(ms / 100) * 100} ms`;
}
