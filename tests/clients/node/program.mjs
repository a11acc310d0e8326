// What every program here shares: where the gateway is, and one JSON document on stdout at the end.
// `node PROGRAM.mjs SCENARIO` with OPENAI_BASE_URL, OPENAI_API_KEY and MODEL in the environment.

export const baseURL = process.env.OPENAI_BASE_URL;
export const apiKey = process.env.OPENAI_API_KEY;
export const model = process.env.MODEL;

/** Run the scenario that the command line names and print what it saw. */
export async function play(scenarios) {
  const seen = await scenarios[process.argv[2]]();
  process.stdout.write(JSON.stringify(seen) + "\n");
}

/** What a client can tell its user about an error. */
export function failure(error) {
  const { message, status, code, type, param } = error;
  return { name: error.constructor.name, message, status, code, type, param };
}
