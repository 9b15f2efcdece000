import { defineConfig } from 'vite'

// dev.js has read SERVICE_URL from .env.
const port = Number(new URL(process.env.SERVICE_URL ?? 'http://localhost:3000').port || 3000)
export default defineConfig({
  // Vite bundles this package at its start. Otherwise the first login with a temporary key could reload the page.
  optimizeDeps: { include: ['ethers'] },
  // The page and its API have one origin, in development and in production.
  server: { port, strictPort: true, proxy: { '/api': `http://localhost:${port + 10}` } }
})
