import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// Names have a hash of the content, so that the server may let browsers keep them for ever.
export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../src/headrace/server/console/dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  worker: { format: "es" },
});
