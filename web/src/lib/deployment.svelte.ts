// What the server says of itself; fetched again with each connection.

import { get } from "./api";
import type { DeploymentView } from "./views";

class Deployment {
  view = $state.raw<DeploymentView | null>(null);

  get mayWrite(): boolean {
    return this.view !== null && this.view.role === "write" && !this.view.read_only;
  }

  async again(): Promise<void> {
    this.view = await get<DeploymentView>("/deployment");
  }
}

export const deployment = new Deployment();
